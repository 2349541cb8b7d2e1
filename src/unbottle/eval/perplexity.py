"""losses_of: -log p of true tokens, from what a model calls logits.

Some of the tokens, and how well they were predicted.

Where the true next token was: in the context, among the most likely words, or elsewhere.

Windows that overlap, so that no token but the first is predicted from little context.

Perplexity of a causal language model, as a whole and by where the true next token was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unbottle.eval.inference import evaluating
from unbottle.eval.proper_nouns import tokens_of_words
from unbottle.ops.logits import top
from unbottle.progress import Progress


def losses_of(logits: Float[Tensor, "P V"], targets: Int[Tensor, "P"]) -> Float[Tensor, "P"]:
    """log sum_x exp logit(x) - logit(target). What a mixture calls logits are log-probabilities, whose sum is one."""
    values = logits if logits.dtype == torch.float64 else logits.float()
    return values.logsumexp(dim=-1) - values.gather(-1, targets[:, None])[:, 0]


@dataclass(frozen=True, kw_only=True)
class Group:
    """loss = mean of -log p(token) over its tokens,   perplexity = exp(loss);   None where there is no token."""

    tokens: int
    share: float
    loss: float | None
    perplexity: float | None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Tally:
    """A sum in double precision, and how many were added."""

    total: float = 0.0
    count: int = 0

    def add(self, losses: Float[Tensor, "P"], members: Bool[Tensor, "P"] | None = None) -> None:
        chosen = losses if members is None else losses[members]
        self.total += float(chosen.double().sum())
        self.count += len(chosen)

    def group(self, of: int) -> Group:
        loss = self.total / self.count if self.count else None
        return Group(tokens=self.count, share=self.count / of, loss=loss, perplexity=exp(loss))


def exp(loss: float | None) -> float | None:
    """Infinite where Python's own would raise: a model may give a token no chance at all."""
    return None if loss is None else math.exp(loss) if loss < 700 else math.inf


CONTEXT, TOP, ELSEWHERE = "context", "top", "elsewhere"


def in_context(ids: Int[Tensor, "T"], targets: Int[Tensor, "T-1"]) -> Bool[Tensor, "T-1"]:
    """Whether targets[t], which follows ids[t], is one of ids[0], ..., ids[t]."""
    return (targets[:, None] == ids[None, :-1]).tril().any(dim=-1)


def in_top(logits: Float[Tensor, "P V"], targets: Int[Tensor, "P"], k: int) -> Bool[Tensor, "P"]:
    """Whether targets are in W(k): the k largest logits, ties to the lower id."""
    words: Tensor = top(logits, min(k, logits.shape[-1]))
    return (words == targets[:, None]).any(dim=-1)


IGNORED = -100  # a label that is not scored, in transformers and here


@dataclass(frozen=True)
class Overlapping(Sequence):
    """Window i holds `length` tokens from i * stride on. Each token is scored once, in the first window that has it.

    Labels of tokens that an earlier window scored are IGNORED. With stride = length nothing overlaps, and the first
    token of each window has no window that predicts it.
    """

    tokens: Any  # one row: a tensor, an array
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


PROPER, OTHER = "proper noun", "other"
OVERLAP = {True: "read, not predicted again", False: "predicted in every window, unless its label is -100"}
Window = Mapping[str, Tensor]  # input_ids and labels, one dimension each; a label is the token at its own place


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """What `perplexity` found.

    `groups` holds three that exclude each other (context, top, elsewhere) and, with a tagger, two more (proper noun,
    other). `windows` is [sum of losses, tokens] of each window, for paired intervals between models.
    """

    tokens: int
    loss: float
    perplexity: float
    groups: dict[str, Group]
    windowing: dict[str, Any]
    k: int
    top_of: str
    tagger: str | None
    windows: list[tuple[float, int]] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        groups = {name: group.to_dict() for name, group in self.groups.items()}
        return {**vars(self), "groups": groups, "windows": [list(window) for window in self.windows]}


def perplexity(
    model: Any,
    windows: Sequence[Window],
    *,
    tokenizer: Any = None,
    k: int = 100,
    tagger: Any = None,
    reference: Any = None,
    likely: Sequence[Bool[Tensor, "T-1"]] | None = None,
    batch: int = 4,
    report: Progress | None = None,
) -> Perplexity:
    """exp of the mean of -log p(token | the tokens before it in its window), over all tokens that have a label.

    The first token of each window is read, not predicted; so are tokens whose label is -100. A predicted token is in
    the group "context" if it is among the tokens before it in the window, else in "top" if it is one of the k most
    likely words of `reference` (of the model itself without one; give the same to models that are compared), else in
    "elsewhere". Instead of a reference, `likely` may hold what `likely_tokens` found with it, for many models. With a
    tokenizer and a tagger, a token is a "proper noun" if the word that it is part of is one; the tagger reads one
    window at a time. Windows of one length share a batch, so nothing is padded.
    """
    _check(model, reference, windows, k, batch)
    overall, tallies, each = Tally(), defaultdict[str, Tally](Tally), list[tuple[float, int]]()
    with evaluating(*(model, *([] if reference is None else [reference]))):
        for rows in _batches(windows, batch):
            known = None if likely is None else likely[len(each) : len(each) + len(rows)]
            for row, losses, top in zip(rows, *_scored(model, reference, rows, k, known), strict=True):
                scored = row["labels"][1:] != IGNORED
                here = Tally()
                for tally in (overall, here):
                    tally.add(losses)
                for name, members in _groups(row, top, tokenizer, tagger).items():
                    tallies[name].add(losses, members[scored])
                each.append((here.total, here.count))
            if report is not None:
                report(len(each), len(windows), f"{len(each)} of {len(windows)} windows")
    if not overall.count:
        raise ValueError("no token to predict: a window needs 2 tokens or more, the first of them is only read.")
    whole = overall.group(overall.count)
    assert whole.loss is not None
    assert whole.perplexity is not None
    return Perplexity(
        tokens=whole.tokens,
        loss=whole.loss,
        perplexity=whole.perplexity,
        groups={name: tally.group(overall.count) for name, tally in tallies.items()},
        windowing=_windowing(windows),
        k=k,
        top_of="the model itself" if reference is None and likely is None else "the reference model",
        tagger=None if tagger is None else tagger.description,
        windows=each,
    )


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


def likely_tokens(
    reference: Any, windows: Sequence[Window], *, k: int = 100, batch: int = 4
) -> list[Bool[Tensor, "T-1"]]:
    """For each window: whether the tokens after its first are among the k most likely words of a model."""
    with evaluating(reference):
        return [
            found
            for rows in _batches(windows, batch)
            for found in _likely(reference, torch.stack([row["input_ids"] for row in rows]), k)
        ]


def _scored(
    model: Any, reference: Any, rows: Sequence[Window], k: int, known: Sequence[Tensor] | None
) -> tuple[list[Tensor], Sequence[Tensor]]:
    """For each row: the loss of its scored tokens, and for all but the first token whether it is in W(k)."""
    ids = torch.stack([row["input_ids"] for row in rows])
    likely = known
    if reference is not None:
        likely = _likely(reference, ids, k)  # done before the model's own logits exist
    logits = _logits(model, ids)
    losses = []
    for row, found in zip(rows, logits, strict=True):
        labels = row["labels"][1:].to(found.device)
        kept = (labels != IGNORED).nonzero()[:, 0]
        losses.append(losses_of(found[:-1][kept], labels[kept]).cpu())
    if likely is None:
        likely = [in_top(found[:-1], row[1:].to(found.device), k).cpu() for row, found in zip(ids, logits, strict=True)]
    return losses, likely


def _likely(reference: Any, ids: Int[Tensor, "B T"], k: int) -> list[Tensor]:
    logits = _logits(reference, ids)
    return [in_top(found[:-1], row[1:].to(found.device), k).cpu() for row, found in zip(ids, logits, strict=True)]


def _logits(model: Any, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    logits: Tensor = model(input_ids=ids.to(model.device), use_cache=False).logits
    return logits


def _groups(row: Window, likely: Bool[Tensor, "T-1"], tokenizer: Any, tagger: Any) -> dict[str, Bool[Tensor, "T-1"]]:
    ids = row["input_ids"]
    repeated = in_context(ids, ids[1:])
    groups = {CONTEXT: repeated, TOP: ~repeated & likely, ELSEWHERE: ~repeated & ~likely}
    if tokenizer is not None and tagger is not None:
        proper = torch.tensor(tokens_of_words(ids.tolist(), tokenizer, tagger), dtype=torch.bool)[1:]
        groups |= {PROPER: proper, OTHER: ~proper}
    return groups


def _windowing(windows: Sequence[Window]) -> dict[str, Any]:
    length = max(len(windows[index]["input_ids"]) for index in range(len(windows)))
    stride = getattr(windows, "stride", None) or length
    return {
        "windows": len(windows),
        "length": length,
        "stride": stride,
        "first token of a window": "read, not predicted",
        "overlap": "none" if stride >= length else OVERLAP[isinstance(windows, Overlapping)],
    }


def _check(model: Any, reference: Any, windows: Sequence[Window], k: int, batch: int) -> None:
    if not len(windows):
        raise ValueError("no windows: the text is empty.")
    if k < 1 or batch < 1:
        raise ValueError(f"k={k}, batch={batch}: expected 1 or more of each.")
    length = len(windows[0]["input_ids"])
    for each in (model, reference):
        if each is None:
            continue
        config = each.config.get_text_config()
        if each.config.is_encoder_decoder:
            raise ValueError(f"{type(each).__name__} has an encoder: perplexity is of causal language models.")
        longest = getattr(config, "max_position_embeddings", None) or length
        if length > longest:
            raise ValueError(f"windows of {length} tokens: {type(each).__name__} reads at most {longest}.")
    if reference is not None and _vocabulary(reference) != _vocabulary(model):
        raise ValueError(
            f"the reference model knows {_vocabulary(reference)} words, the model {_vocabulary(model)}: "
            "W(k) needs one vocabulary."
        )


def _vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])
