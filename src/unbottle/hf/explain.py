"""explain: which word comes next, and which partition says so, as data and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from unbottle.head import Distribution, Head
from unbottle.head.attribution import shares, token_masses, token_scores
from unbottle.head.inputs import Inputs
from unbottle.hf.attach import with_head
from unbottle.hf.head_inputs import watched
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.pretrained import source_limit, target_limit
from unbottle.ops import Logits, Words
from unbottle.tables import Table

SHOWN = 4  # occurrences of a word in a row of the table


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """A place a word stands at, and what a method that points at places makes of it.

    `score`: P adds the mean of the scores to the logit; CopyNet adds exp(score) to exp(logit).
    `copied`: the probability that PG, PS or CopyNet copied from here.
    """

    text: str  # "context" or "source"
    position: int  # in `context` or `source` of the explanation
    score: float | None = None
    copied: float | None = None

    def __str__(self) -> str:
        value = self.score if self.copied is None else self.copied
        return str(self.position) if value is None else f"{self.position} ({value:.3g})"


@dataclass(frozen=True, kw_only=True)
class NextWord:
    """One word that may come next.

    `partition` set its logit last, after all of `writers`, in order. `logit` is that of the first softmax,
    `plain_logit` is f_V . w_x. `copied` is the part of its probability that PG, PS or CopyNet copied.
    """

    id: int
    text: str
    probability: float
    partition: str
    writers: tuple[str, ...]
    logit: float
    plain_logit: float
    copied: float | None = None
    occurrences: tuple[Occurrence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a head predicts after a text, and why.

    `masses` is the probability of all words by what gave it, and sums to one: V, C, PD, R1, ... by last writer; V2, V3
    are the other softmaxes of MoS; COPY is copied probability (PG, PS, CopyNet).
    """

    method: str
    text: str
    context: tuple[str, ...]  # what the decoder reads, token by token
    source: tuple[str, ...]  # what the encoder reads
    words: tuple[NextWord, ...]  # the most likely first
    masses: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        title = ("word", "id", "probability", "set by", "writers", "logit", "plain", "copied", "stands at")
        rows = [_table_row(word) for word in self.words]
        keep = [column for column in range(len(title)) if any(row[column] for row in rows)]
        masses = "  ".join(f"{name} {mass:.4f}" for name, mass in self.masses.items())
        table = Table([title[column] for column in keep], [[row[column] for column in keep] for row in rows])
        return f"{self.method}: next word after {self.text!r}\n{table.text()}\nall words: {masses}"


def _table_row(word: NextWord) -> tuple[str, ...]:
    return (
        repr(word.text),
        str(word.id),
        f"{word.probability:.4f}",
        word.partition,
        " ".join(word.writers),
        f"{word.logit:.3f}",
        f"{word.plain_logit:.3f}",
        "" if word.copied is None else f"{word.copied:.4f}",
        "; ".join(filter(None, (_places_text(word, text) for text in ("context", "source")))),
    )


def _places_text(word: NextWord, text: str) -> str:
    places = [str(occurrence) for occurrence in word.occurrences if occurrence.text == text]
    more = [f"and {len(places) - SHOWN} more"] if len(places) > SHOWN else []
    return f"{text} {', '.join([*places[:SHOWN], *more])}" if places else ""


@torch.no_grad()
def explain(
    model: nn.Module, tokenizer: PreTrainedTokenizerBase, text: str, *, top: int = 10, source: str | None = None
) -> Explanation:
    """The next word after `text`: the `top` most likely ones, and where their probability comes from.

    A causal model continues `text`. An encoder-decoder model reads `source` and continues `text`, which may be empty.
    Knobs that are turned count. Print the result, or take `to_dict()`.
    """
    target = with_head(model)
    vocabulary = target.get_output_embeddings().weight.shape[0]
    if not 1 <= top <= vocabulary:
        raise ValueError(f"top={top}: expected 1 to {vocabulary}, the words of the vocabulary.")
    inputs = _inputs(target, tokenizer, text, source)
    x, distribution = _predict(model, target, inputs)
    *encoded, decoded = (ids[0].tolist() for ids in inputs.values())
    source_ids = encoded[0] if encoded else []
    by_partition = shares(target.head, x, distribution)
    places = _places(target.head, x, distribution, source_ids)

    log_probs = distribution.log_probs()[0, -1]
    best = log_probs.sort(descending=True, stable=True).indices[:top]
    best = best[log_probs[best] > -torch.inf]  # source_only leaves some words no chance
    plain = target.head.plain(x, Words(best[None, None], torch.ones_like(best, dtype=torch.bool)[None, None]))[0, -1]
    words = []
    for word, plain_logit in zip(best.tolist(), plain.tolist(), strict=True):
        writers = _writers(distribution.logits[0], word)
        words.append(
            NextWord(
                id=word,
                text=spelled(tokenizer, word),
                probability=float(log_probs[word].exp()),
                partition=writers[-1],
                writers=writers,
                logit=float(distribution.logits[0].values[0, -1, word]),
                plain_logit=plain_logit,
                copied=float(by_partition["COPY"][0, -1, word]) if "COPY" in by_partition else None,
                occurrences=tuple(places.get(word, ())),
            )
        )
    return Explanation(
        method=str(target.head.config.method),
        text=text,
        context=tuple(spelled(tokenizer, word) for word in decoded),
        source=tuple(spelled(tokenizer, word) for word in source_ids),
        words=tuple(words),
        masses={name: float(share.sum()) for name, share in by_partition.items()},
    )


def spelled(tokenizer: PreTrainedTokenizerBase, word: int) -> str:
    """The text of a token. Logits may be wider than the tokenizer: such an id has no text and shows as itself."""
    if word >= len(tokenizer):
        return f"[{word}]"
    return str(tokenizer.decode([word], skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _writers(logits: Logits, word: int) -> tuple[str, ...]:
    """All who wrote the logit of a word at the last position, in order."""

    def wrote(words: Words) -> bool:
        return bool((words.present & (words.ids == word))[0, -1].any())

    return ("V", *(write.name for write in logits.written if wrote(write.words)))


def _places(head: Head, x: Inputs, distribution: Distribution, source: list[int]) -> dict[int, list[Occurrence]]:
    """Where each word stands in the context and in the encoder input."""
    scores, masses = token_scores(head, x), token_masses(head, x, distribution)
    seen = x.context.visible[0, -1].nonzero()[:, 0].tolist()
    texts = {False: [(place, int(x.context.ids[0, place])) for place in seen], True: list(enumerate(source))}
    places: dict[int, list[Occurrence]] = {}
    for side, tokens in texts.items():
        score, mass = scores.get(side), masses.get(side)
        for place, word in tokens:
            occurrence = Occurrence(
                text="source" if side else "context",
                position=place,
                score=None if score is None else float(score[0, -1, place]),
                copied=None if mass is None else float(mass[0, -1, place]),
            )
            places.setdefault(word, []).append(occurrence)
    return places


def _inputs(model: HeadMixin, tokenizer: PreTrainedTokenizerBase, text: str, source: str | None) -> dict[str, Tensor]:
    """What the model reads: a batch of one."""
    name = model.base_class.__name__
    if not model.config.is_encoder_decoder:
        if source is not None:
            raise ValueError(f"source={source!r}: {name} has no encoder. Put everything into text.")
        ids = _ids(tokenizer, text)
        if not ids:
            raise ValueError(f"text {text!r} has no token, and {name} needs one to go on from. Give a longer text.")
        return {"input_ids": _row(model, ids, "text", target_limit(model.config.get_text_config()))}
    ids = [] if source is None else _ids(tokenizer, source)
    if not ids:
        raise ValueError(f"source={source!r} has no token, and {name} reads an encoder input. Give source='...'.")
    row = _row(model, ids, "source", source_limit(model.config))
    return {"input_ids": row, "decoder_input_ids": _prefix(model, tokenizer, text)}


def _prefix(model: HeadMixin, tokenizer: PreTrainedTokenizerBase, text: str) -> Tensor:
    """What the decoder reads before the next word: the text as labels, shifted by the model, without its end."""
    ids, end = _ids(tokenizer, text_target=text), tokenizer.eos_token_id
    if end not in ids:
        ids.append(0 if end is None else end)  # the model's own shift drops the last one
    shifted: Tensor = model.prepare_decoder_input_ids_from_labels(
        labels=_row(model, ids, "text", target_limit(model.config))
    )
    return shifted[:, :-1] if shifted.shape[1] > 1 and shifted[0, -1] == end else shifted


def _ids(tokenizer: PreTrainedTokenizerBase, *text: str, **target: str) -> list[int]:
    (value,) = (*text, *target.values())
    if not isinstance(value, str):
        raise ValueError(f"text {value!r}: expected a text, not {type(value).__name__}.")
    try:
        return list(tokenizer(*text, **target)["input_ids"])
    except (TypeError, UnicodeEncodeError) as error:  # half of a character is none
        raise ValueError(f"text {value!r}: the tokenizer cannot read it; it is not valid Unicode.") from error


def _row(model: HeadMixin, ids: list[int], what: str, limit: int | None) -> Tensor:
    """A batch of one; refuses what the model cannot read."""
    name, words = model.base_class.__name__, model.get_input_embeddings().weight.shape[0]
    if limit is not None and len(ids) > limit:
        raise ValueError(f"{what} has {len(ids)} tokens, and {name} reads at most {limit}. Give a shorter one.")
    if ids and max(ids) >= words:
        raise ValueError(f"{what} has the token {max(ids)}, and {name} knows {words}: this is another tokenizer.")
    return torch.tensor([ids], dtype=torch.long, device=model.device)


def _predict(model: Callable[..., object], target: HeadMixin, inputs: dict[str, Tensor]) -> tuple[Inputs, Distribution]:
    """One pass of the model, as it is in evaluation; what the head computed at the last position."""
    training = target.training
    target.eval()
    try:
        with watched(target.head) as seen:
            model(**inputs, logits_to_keep=1, use_cache=False)
    finally:
        target.train(training)
    return seen[-1]
