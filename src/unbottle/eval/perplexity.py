"""Loss and perplexity: of texts by causal models, by where the true next token was; of summaries of documents."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import LanguageModel, evaluating, vocabulary_size
from unbottle.eval.proper_nouns import Tagger, tokens_of_words
from unbottle.hf.pretrained import length_limit
from unbottle.ops.logits import top
from unbottle.progress import Progress, silent

CONTEXT, TOP, ELSEWHERE = "context", "top", "elsewhere"
DOCUMENT = "document"
PROPER, OTHER = "proper noun", "other"
IGNORED = -100  # a label that is not scored, in transformers and here
OVERLAP = {True: "read, not predicted again", False: "predicted in every window, unless its label is -100"}
Window = Mapping[str, Tensor]  # input_ids and labels, one dimension each; a label is the token at its own place
TokenizedPair = Mapping[str, Tensor]  # input_ids and labels, one dimension each


def losses_of(logits: Float[Tensor, "P V"], targets: Int[Tensor, "P"]) -> Float[Tensor, "P"]:
    """log sum_x exp logit(x) - logit(target). What a mixture calls logits are log-probabilities, whose sum is one."""
    values = logits if logits.dtype == torch.float64 else logits.float()
    return values.logsumexp(dim=-1) - values.gather(-1, targets[:, None])[:, 0]


def perplexity_of(loss: float) -> float:
    """exp(loss); infinite where a model gives a token no probability at all."""
    return math.exp(loss) if loss < 700 else math.inf  # beyond that, exp overflows


@dataclass(frozen=True, kw_only=True)
class TokenGroup:
    """loss = mean of -log p(token) over its tokens,   perplexity = exp(loss);   None where there is no token."""

    tokens: int
    share: float
    loss: float | None
    perplexity: float | None


@dataclass
class LossSum:
    """A sum of losses in double precision, and their number."""

    total: float = 0.0
    count: int = 0

    def add(self, losses: Float[Tensor, "P"], members: Bool[Tensor, "P"] | None = None) -> tuple[float, int]:
        """Add the losses of the members, all without any; returns their sum and number."""
        chosen = losses if members is None else losses[members]
        total, count = float(chosen.double().sum()), len(chosen)
        self.total, self.count = self.total + total, self.count + count
        return total, count

    def of(self, total: int) -> TokenGroup:
        """The group of these tokens among `total` tokens."""
        loss = self.total / self.count if self.count else None
        perplexity = None if loss is None else perplexity_of(loss)
        return TokenGroup(tokens=self.count, share=self.count / total, loss=loss, perplexity=perplexity)


@dataclass(frozen=True)
class Overlapping(Sequence):
    """Window i holds `length` tokens from i * stride on. Each token is scored once, in the first window that has it.

    Labels of tokens that an earlier window scored are IGNORED. With stride = length nothing overlaps, and the first
    token of each window has no window that predicts it.
    """

    tokens: Tensor | np.ndarray | Sequence[int]
    length: int
    stride: int

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"length {self.length}: a window needs 2 tokens or more, one to read and one to predict.")
        if not 1 <= self.stride <= self.length:
            raise ValueError(f"stride {self.stride}: expected 1 to {self.length}, the length of a window.")

    def __len__(self) -> int:
        rest = max(len(self.tokens) - self.length, 0)
        return int(len(self.tokens) > 0) + -(-rest // self.stride)

    def __getitem__(self, index: int) -> dict[str, Tensor]:  # type: ignore[override]
        if not 0 <= index < len(self):
            raise IndexError(index)
        first = index * self.stride
        part = self.tokens[first : first + self.length]
        ids = part.long() if isinstance(part, Tensor) else torch.from_numpy(np.array(part, dtype=np.int64))
        labels = ids.clone()
        if index:
            labels[: self.length - self.stride] = IGNORED
        return {"input_ids": ids, "labels": labels}


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """The result of `perplexity`.

    `groups` holds three that exclude each other (context, top, elsewhere) and, with a tagger, two more (proper noun,
    other). `windows` is [sum of losses, tokens] of each window, for paired intervals between models.
    """

    tokens: int
    loss: float
    perplexity: float
    groups: dict[str, TokenGroup]
    windowing: dict[str, int | str]
    k: int
    top_of: str
    tagger: str | None
    windows: list[tuple[float, int]] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "windows": [list(window) for window in self.windows]}


def perplexity(
    model: LanguageModel,
    windows: Sequence[Window],
    *,
    tokenizer: Tokenizer | None = None,
    k: int = 100,
    tagger: Tagger | None = None,
    reference: LanguageModel | None = None,
    likely: Sequence[Bool[Tensor, "T-1"]] | None = None,
    batch: int = 4,
    report: Progress = silent,
) -> Perplexity:
    """exp of the mean of -log p(token | the tokens before it in its window), over all tokens that have a label.

    The first token of each window is read, not predicted; so are tokens whose label is -100. A predicted token is in
    the group "context" if it is among the tokens before it in the window, else in "top" if it is one of the k most
    likely words of `reference` (of the model itself without one; give the same to models that are compared), else in
    "elsewhere". Instead of a reference, `likely` may be its `likely_tokens`, computed once for many models. With a
    tokenizer and a tagger, a token is a "proper noun" if the word that it is part of is one; the tagger reads one
    window at a time. Windows of one length share a batch, so nothing is padded.
    """
    _check(model, reference, windows, k, batch)
    overall, sums, by_window = LossSum(), defaultdict[str, LossSum](LossSum), list[tuple[float, int]]()
    with evaluating(*(model, *([] if reference is None else [reference]))):
        for rows in _batches(windows, batch):
            ids = torch.stack([row["input_ids"] for row in rows])
            in_top: Sequence[Tensor] | None = None
            if likely is not None:
                in_top = likely[len(by_window) : len(by_window) + len(rows)]
            elif reference is not None:
                in_top = _in_top(_logits(reference, ids), ids, k)  # before the model's own logits need memory
            logits = _logits(model, ids)
            in_top = _in_top(logits, ids, k) if in_top is None else in_top
            for row, values, top_tokens in zip(rows, logits, in_top, strict=True):
                labels = row["labels"][1:]
                scored = labels != IGNORED
                kept = scored.nonzero()[:, 0].to(values.device)
                losses = losses_of(values[:-1][kept], labels.to(values.device)[kept]).cpu()
                by_window.append(overall.add(losses))
                for name, members in _groups(row, top_tokens, tokenizer, tagger).items():
                    sums[name].add(losses, members[scored])
            report(len(by_window), len(windows), f"{len(by_window)} of {len(windows)} windows")
    if not overall.count:
        raise ValueError("no token to predict: a window needs 2 tokens or more, the first of them is only read.")
    loss = overall.total / overall.count
    return Perplexity(
        tokens=overall.count,
        loss=loss,
        perplexity=perplexity_of(loss),
        groups={name: group.of(overall.count) for name, group in sums.items()},
        windowing=_windowing(windows),
        k=k,
        top_of="the model itself" if reference is None and likely is None else "the reference model",
        tagger=None if tagger is None else tagger.description,
        windows=by_window,
    )


def likely_tokens(
    reference: LanguageModel, windows: Sequence[Window], *, k: int = 100, batch: int = 4
) -> list[Bool[Tensor, "T-1"]]:
    """For each window: whether the tokens after its first are among the k most likely words of a model."""
    with evaluating(reference):
        stacked = (torch.stack([row["input_ids"] for row in rows]) for rows in _batches(windows, batch))
        return [tokens for ids in stacked for tokens in _in_top(_logits(reference, ids), ids, k)]


def _batches(windows: Sequence[Window], batch: int) -> Iterator[list[Window]]:
    """Neighbours of one length, at most `batch` at a time."""
    rows: list[Window] = []
    for index in range(len(windows)):
        row = windows[index]
        if rows and (len(rows) == batch or len(row["input_ids"]) != len(rows[0]["input_ids"])):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def _logits(model: LanguageModel, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    logits: Tensor = model(input_ids=ids.to(model.device), use_cache=False).logits
    return logits


def _in_top(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"], k: int) -> list[Bool[Tensor, "T-1"]]:
    """Whether the tokens after the first are in W(k): the k largest logits, ties to the lower id."""
    rows = []
    for values, row in zip(logits, ids, strict=True):
        words: Tensor = top(values[:-1], min(k, values.shape[-1]))
        rows.append((words == row[1:].to(values.device)[:, None]).any(dim=-1).cpu())
    return rows


def _groups(
    row: Window, likely: Bool[Tensor, "T-1"], tokenizer: Tokenizer | None, tagger: Tagger | None
) -> dict[str, Bool[Tensor, "T-1"]]:
    ids = row["input_ids"]
    repeated = (ids[1:, None] == ids[None, :-1]).tril().any(dim=-1)  # ids[t + 1] is one of ids[0], ..., ids[t]
    groups = {CONTEXT: repeated, TOP: ~repeated & likely, ELSEWHERE: ~repeated & ~likely}
    if tokenizer is not None and tagger is not None:
        proper = torch.tensor(tokens_of_words(ids.tolist(), tokenizer, tagger), dtype=torch.bool)[1:]
        groups |= {PROPER: proper, OTHER: ~proper}
    return groups


def _windowing(windows: Sequence[Window]) -> dict[str, int | str]:
    length = max(len(windows[index]["input_ids"]) for index in range(len(windows)))
    stride = getattr(windows, "stride", None) or length
    return {
        "windows": len(windows),
        "length": length,
        "stride": stride,
        "first token of a window": "read, not predicted",
        "overlap": "none" if stride >= length else OVERLAP[isinstance(windows, Overlapping)],
    }


def _check(
    model: LanguageModel, reference: LanguageModel | None, windows: Sequence[Window], k: int, batch: int
) -> None:
    if not len(windows):
        raise ValueError("no windows: the text is empty.")
    if k < 1 or batch < 1:
        raise ValueError(f"k={k}, batch={batch}: expected 1 or more of each.")
    length = len(windows[0]["input_ids"])
    sizes = []
    for checked in (model, reference):
        if checked is None:
            continue
        if checked.config.is_encoder_decoder:
            raise ValueError(f"{type(checked).__name__} has an encoder: perplexity is of causal language models.")
        longest = length_limit(checked.config)
        if longest is not None and length > longest:
            raise ValueError(f"windows of {length} tokens: {type(checked).__name__} reads at most {longest}.")
        sizes.append(vocabulary_size(checked))
    if len(set(sizes)) > 1:
        raise ValueError(
            f"the reference model knows {sizes[1]} words, the model {sizes[0]}: W(k) needs one vocabulary."
        )


@dataclass(frozen=True, kw_only=True)
class SummaryLoss:
    """loss = mean of -log p(token | document, tokens before it), perplexity = exp(loss).

    A token is in the group "document" if the document has it, else in "elsewhere", as is the end of every summary.
    """

    tokens: int
    loss: float
    perplexity: float
    groups: dict[str, TokenGroup]
    pairs: list[tuple[float, int]] = field(repr=False)  # sum of losses and tokens of each, for paired intervals

    def padded(self, length: int) -> float:
        """The loss per position of summaries that are padded to `length`, as the paper's tables have it.

        The authors train and evaluate with the padding as labels. After the end there is nothing to know: its loss is
        taken as 0, to which a model falls that is trained so, and ours are not.
        """
        return sum(total for total, _ in self.pairs) / (length * len(self.pairs))


def summary_loss(
    model: PreTrainedModel, pairs: Sequence[TokenizedPair], *, batch: int = 8, report: Progress = silent
) -> SummaryLoss:
    """The loss over all tokens of all true summaries, their ends included; padding does not count."""
    if not len(pairs):
        raise ValueError("no pairs: there is nothing to predict.")
    overall, sums, by_pair = LossSum(), {DOCUMENT: LossSum(), ELSEWHERE: LossSum()}, list[tuple[float, int]]()
    with evaluating(model):
        for start in range(0, len(pairs), batch):
            rows = [pairs[place] for place in range(start, min(start + batch, len(pairs)))]
            for row, logits in zip(rows, _summary_logits(model, rows), strict=True):
                labels = row["labels"]
                losses = losses_of(logits[: len(labels)], labels.to(logits.device)).cpu()
                in_document = torch.isin(labels, row["input_ids"]) & (labels != model.config.eos_token_id)
                by_pair.append(overall.add(losses))
                sums[DOCUMENT].add(losses, in_document)
                sums[ELSEWHERE].add(losses, ~in_document)
            report(start + len(rows), len(pairs), f"{start + len(rows)} of {len(pairs)} summaries")
    loss = overall.total / overall.count
    groups = {name: group.of(overall.count) for name, group in sums.items()}
    return SummaryLoss(tokens=overall.count, loss=loss, perplexity=perplexity_of(loss), groups=groups, pairs=by_pair)


def _summary_logits(model: PreTrainedModel, rows: Sequence[TokenizedPair]) -> Tensor:
    """Logits at every position of every summary, B T V; those behind its end are to be ignored."""
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True).to(model.device)
    mask = pad_sequence([torch.ones_like(row["input_ids"]) for row in rows], batch_first=True).to(model.device)
    labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED).to(model.device)
    prepare = getattr(model, "prepare_decoder_input_ids_from_labels")  # noqa: B009  nn.Module's type hides it
    output = model(input_ids=ids, attention_mask=mask, decoder_input_ids=prepare(labels), use_cache=False)
    logits: Tensor = output.logits
    return logits
