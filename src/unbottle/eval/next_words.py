"""Next words: probabilities of whole words after texts, and predictions of several models side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import LanguageModel, check_length, evaluating, vocabulary_size
from unbottle.hf.attach import innermost
from unbottle.hf.explain import explain, spelled
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress, silent
from unbottle.tables import Table

MARKED = re.compile(r"\[(-?)([^\[\]]+)\]")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text, cut where its options stand: pieces[0] options[0] pieces[1] options[1] ... pieces[n].

    `repeats`: the next word is one of the options, each as likely as the others. Otherwise the next word is none of
    them: a list goes on with something new.
    """

    pieces: tuple[str, ...]
    options: tuple[str, ...] = ()
    repeats: bool = True

    @classmethod
    def parse(cls, text: str) -> Prompt:
        """A prompt with its options in brackets, "[tea] or [milk]? I take"; "[-tea], [-milk] and" if not to repeat."""
        marked = MARKED.findall(text)
        options = tuple(option.strip() for _, option in marked)
        if not text.strip() or not all(options):
            raise ValueError(f"prompt {text!r} has no text, or an empty option. Give a text, options as in [tea].")
        if len({sign for sign, _ in marked}) > 1:
            raise ValueError(f"prompt {text!r} mixes [option] and [-option]. Mark all of them in the same way.")
        if len(set(options)) < len(options):
            raise ValueError(f"prompt {text!r} has the same option twice. Mark each word once.")
        pieces = tuple(MARKED.split(text)[::3])
        pieces = (*pieces[:-1], pieces[-1].rstrip())  # the space belongs to the next word
        return cls(pieces=pieces, options=options, repeats=not any(sign for sign, _ in marked))

    def text(self, options: Sequence[str] | None = None) -> str:
        """The text, with its options in another order if one is given."""
        placed = self.options if options is None else options
        inside = (option + piece for option, piece in zip(placed, self.pieces[1:], strict=True))
        return self.pieces[0] + "".join(inside)

    def marked(self) -> str:
        """What `parse` reads."""
        return self.text([f"[{'' if self.repeats else '-'}{option}]" for option in self.options])

    def __str__(self) -> str:
        return self.text()


# The three contexts of the paper's table of predictions, and its king or woman, in a sentence of our own: the paper
# has theirs only in a picture.
PROMPTS = tuple(
    Prompt.parse(text)
    for text in (
        "There are [plates], [keys], [scissors], [toys], and [balloons] in front of me, and I pick up the",
        "Choosing between [John], [Alex], [Mary], [Kathryn], and [Jack], I decided to first talk to",
        "I like [-tennis], [-baseball], [-golf], [-basketball], and",
        "The [king] and the [woman] both wanted to speak first, so we tossed a coin, and it chose the",
    )
)


PLAIN = "softmax"  # the partition of a model without a head


@dataclass(frozen=True, kw_only=True)
class ProbedWord:
    """A token, its probability, and the partition that set its logit."""

    id: int
    text: str
    probability: float
    partition: str


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The next words of one model after one prompt, the most likely first.

    `masses` is the probability of all words by what gave it, as in an Explanation.
    """

    model: str
    method: str
    prompt: str
    words: tuple[ProbedWord, ...]
    masses: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The predictions of all models for the first prompt, then for the second, and so on."""

    found: tuple[Probed, ...]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        blocks = []
        for prompt in dict.fromkeys(probed.prompt for probed in self.found):
            blocks.append(f"{prompt}\n{_table([probed for probed in self.found if probed.prompt == prompt])}")
        return "\n\n".join(blocks)


def probe(
    models: Mapping[str, LanguageModel],
    tokenizer: Tokenizer | Mapping[str, Tokenizer],
    prompts: Sequence[Prompt | str] = PROMPTS,
    *,
    k: int = 5,
) -> Probe:
    """The `k` most likely next tokens of each model after each prompt, with the partition that set each.

    `tokenizer` is one for all models, or a mapping from the names of the models.
    """
    if not models:
        raise ValueError("no model to probe. Give at least one.")
    probed = []
    for prompt in map(str, prompts):
        for name, model in models.items():
            own = tokenizer[name] if isinstance(tokenizer, Mapping) else tokenizer
            probed.append(_next_words(name, model, own, prompt, k))
    return Probe(found=tuple(probed))


def _next_words(name: str, model: LanguageModel, tokenizer: Tokenizer, prompt: str, k: int) -> Probed:
    vocabulary = vocabulary_size(model)
    if not 1 <= k <= vocabulary:
        raise ValueError(f"k={k}: expected 1 to {vocabulary}, the words of the vocabulary.")
    ids = tokenizer(prompt)["input_ids"]
    if not ids:
        raise ValueError(f"prompt {prompt!r} has no token, and a model needs one to go on from. Give a longer prompt.")
    check_length(model, len(ids))
    if isinstance(innermost(model), HeadMixin):
        explanation = explain(cast(nn.Module, model), tokenizer, prompt, top=k)
        method, masses = explanation.method, explanation.masses
        words = tuple(
            ProbedWord(id=word.id, text=word.text, probability=word.probability, partition=word.partition)
            for word in explanation.words
        )
        return Probed(model=name, method=method, prompt=prompt, words=words, masses=masses)
    with evaluating(model):
        logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False, logits_to_keep=1).logits
    probability = logits[0, -1].float().softmax(-1)
    words = tuple(
        ProbedWord(id=word, text=spelled(tokenizer, word), probability=float(probability[word]), partition=PLAIN)
        for word in probability.sort(descending=True, stable=True).indices[:k].tolist()
    )
    return Probed(model=name, method=PLAIN, prompt=prompt, words=words, masses={PLAIN: 1.0})


def _table(columns: Sequence[Probed]) -> str:
    """A column for each model: word, probability, partition."""
    cells = []
    for probed in columns:
        width = max(len(repr(word.text)) for word in probed.words)
        cells.append([f"{word.text!r:<{width}}  {word.probability:.4f}  {word.partition}" for word in probed.words])
    header = ["", *(f"{probed.model} ({probed.method})" for probed in columns)]
    return Table(header, [["", *row] for row in zip_longest(*cells, fillvalue="")]).text()


@dataclass(frozen=True, kw_only=True)
class WordProbability:
    """log p(word | text) and the number of tokens of the word."""

    log_probability: float
    tokens: int


def word_probabilities(
    model: LanguageModel,
    tokenizer: Tokenizer,
    queries: Sequence[tuple[str, str]],
    *,
    batch: int = 32,
    report: Progress = silent,
) -> list[WordProbability]:
    """For each pair of a text and a word, the probability that a space and the word follow the text.

    log p(word | text) = sum_i log p(token_i | text, token_1 ... token_{i-1})

    It includes longer words that start with the same tokens (man: manner). Queries that differ only in the last token
    are read once, and texts of one length together: nothing is padded, so results do not depend on `batch` beyond
    rounding.
    """
    if batch < 1:
        raise ValueError(f"batch={batch}: expected a number from 1.")
    tokenized = [query_tokens(tokenizer, text, word) for text, word in queries]
    readers: dict[tuple[int, ...], list[int]] = {}  # input ids: the queries that need them
    for index, (context, word) in enumerate(tokenized):
        readers.setdefault((*context, *word[:-1]), []).append(index)
    check_length(model, max(map(len, readers), default=0))
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for row in readers:
        by_length.setdefault(len(row), []).append(row)

    probabilities: dict[int, WordProbability] = {}
    done = 0
    with evaluating(model):
        for rows in by_length.values():
            for start in range(0, len(rows), batch):
                read = rows[start : start + batch]
                keep = max(len(tokenized[index][1]) for row in read for index in readers[row])
                ids = torch.tensor(read, device=model.device)
                log_probs = model(input_ids=ids, use_cache=False, logits_to_keep=keep).logits.float().log_softmax(-1)
                for row, scores in zip(read, log_probs, strict=True):
                    for index in readers[row]:
                        targets = torch.tensor(tokenized[index][1], device=scores.device)
                        total = scores[-len(targets) :].gather(-1, targets[:, None]).double().sum()
                        probabilities[index] = WordProbability(log_probability=float(total), tokens=len(targets))
                done += len(read)
                report(done, len(readers), f"{done} of {len(readers)} contexts")
    return [probabilities[index] for index in range(len(queries))]


def query_tokens(tokenizer: Tokenizer, text: str, word: str) -> tuple[list[int], list[int]]:
    """The tokens of a text, and those that a space and a word add to it."""
    context, whole = (_ids(tokenizer, string) for string in (text, f"{text} {word}"))
    if not context:
        raise ValueError(f"text {text!r} has no token, and a model needs one to go on from. Give a longer text.")
    if whole[: len(context)] != context or len(whole) == len(context):
        raise ValueError(
            f"{type(tokenizer).__name__} does not spell {text[-40:]!r} and {word!r} as separate tokens, so the "
            "probability of the word is not defined. Give a text that ends with a whole word."
        )
    return context, whole[len(context) :]


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids without the end of text that some tokenizers add: the text goes on."""
    ids = list(tokenizer(text)["input_ids"])
    end = tokenizer.eos_token_id
    return ids[:-1] if end is not None and ids[-1:] == [end] else ids
