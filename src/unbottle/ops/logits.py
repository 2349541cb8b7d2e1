"""Logits: one per word and position, read and overwritten by partitions through `at`, `top` and `overwrite`.

`DenseLogits` is the readable reference; `inplace_logits.InPlaceLogits` is the fast implementation. `Words` is the set S
of a partition, `top` a deterministic top-k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from unbottle.ops import triton
from unbottle.ops.device import is_accelerator

Value = TypeVar("Value")


def once(owner: object, name: str, compute: Callable[[], Value]) -> Value:
    """What `compute` returns, kept by its owner; a compiler drops by itself what is computed twice.

    A cached property without a lock, which torch.compile does not know.
    """
    if torch.compiler.is_compiling():
        return compute()
    kept, key = vars(owner), f"cached {name}"
    if key not in kept:
        kept[key] = compute()
    value: Value = kept[key]
    return value


@dataclass(frozen=True)
class Words:
    """A set of distinct words for each position.

    Column s stands for word `ids[b, t, s]`, and is in the set of position t where `present[b, t, s]`.
    `ids` may be shared by all positions (size 1 in T); where a column is not present its id means nothing.
    """

    ids: Int[Tensor, "B #T S"]
    present: Bool[Tensor, "B #T S"]
    complete: bool = False  # every column is present, and the host knows

    def expanded(self, positions: int) -> Int[Tensor, "B T S"]:
        """The ids, written out for every position."""
        return self.ids.expand(-1, positions, -1)

    def target(self, spare: int) -> Int[Tensor, "B #T S"]:
        """Columns to write to: the word where it is present, else a spare column that nobody reads."""
        if self.complete:
            return self.ids
        return once(self, f"target {spare}", lambda: self.ids.where(self.present, spare))


def top(values: Tensor, k: int) -> Tensor:
    """Columns of the k largest values of each row, in ascending order; ties go to the lower column.

    Equals `values.sort(descending=True, stable=True).indices[..., :k].sort().values`. No gradient.
    """
    has_values = type(values) is Tensor and not values.is_meta and not torch.compiler.is_compiling()
    columns: Tensor = (_top if has_values else top_operator)(values, k)
    return columns


@torch.library.custom_op("unbottle::top", mutates_args=(), schema="(Tensor values, int k) -> Tensor")
def top_operator(values: Tensor, k: int) -> Tensor:
    """`top` as one operator, for graphs and tensors without values: the repair of ties depends on the data.

    Not for all tensors, because calling a custom operator costs more than choosing a few words of one position.
    """
    return _top(values, k)


@top_operator.register_fake
def _(values: Tensor, k: int) -> Tensor:
    return values.new_empty((*values.shape[:-1], min(k, values.shape[-1])), dtype=torch.long)


def _top(values: Tensor, k: int) -> Tensor:
    if (fast := triton.implementation(values)) is not None:
        return fast.top(values, k)
    values, width = values.detach(), values.shape[-1]
    if k >= width:
        return torch.arange(width, device=values.device).expand(values.shape).clone()
    if is_accelerator(values.device):
        return _without_looking(values, k)
    maxima = _maxima(values) if width >= 8 * BLOCK * (k + 1) else None
    best, columns = _largest(values, maxima, k + 1)
    columns = columns[..., :k]
    tied = best[..., k - 1] == best[..., k]  # the k-th and the next: only then does the kernel's order matter
    if tied.any():
        columns = columns.clone()
        maxima = _maxima(values) if maxima is None else maxima
        columns[tied] = _lowest_of_ties(values, maxima, tied, best[..., k - 1 : k][tied], k)
    return columns.sort(dim=-1).values


BLOCK = 32  # columns of which only the maximum is looked at first


def _maxima(values: Tensor) -> Tensor | None:
    """The maximum of each block of columns, for each row; None where there are no such blocks.

    The k blocks with the largest maxima hold the k largest values.
    """
    width = values.shape[-1]
    if width % BLOCK or not values.is_contiguous():
        return None
    maxima: Tensor = values.view(-1, width // BLOCK, BLOCK).amax(-1)
    return maxima


def _largest(values: Tensor, maxima: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)`. Where the k-th value ties with others, any of their columns may be chosen."""
    if maxima is None:
        best: tuple[Tensor, Tensor] = values.topk(k, dim=-1)
        return best
    chosen = _columns_of_largest(maxima, k)
    candidates = _blocks(values, torch.arange(len(maxima), device=values.device), chosen)
    place = _columns_of_largest(candidates, k)
    largest, order = candidates.gather(-1, place).sort(dim=-1, descending=True)
    columns = _columns_of(chosen, place.gather(-1, order))
    shape = (*values.shape[:-1], k)
    return largest.view(shape), columns.view(shape)


def _blocks(values: Tensor, rows: Tensor, blocks: Tensor) -> Tensor:
    """The values of some blocks of some rows."""
    each = values.shape[-1] // BLOCK
    return F.embedding(rows[:, None] * each + blocks, values.view(-1, BLOCK)).flatten(1)


def _columns_of(blocks: Tensor, place: Tensor) -> Tensor:
    """The columns of values that stand at these places in what `_blocks` returned."""
    return blocks.gather(-1, place // BLOCK) * BLOCK + place % BLOCK


def _columns_of_largest(rows: Tensor, k: int) -> Tensor:
    """Columns of the k largest values of each row, in any order. NumPy selects faster than torch."""
    if rows.dtype not in (torch.float32, torch.float64):
        return rows.topk(k, dim=-1, sorted=False).indices
    return torch.from_numpy(np.argpartition(rows.numpy(), rows.shape[-1] - k, axis=-1)[:, -k:])


def _without_looking(values: Tensor, k: int) -> Tensor:
    """`top` on a device whose host must not wait: what ties with the k-th value is ordered by its column."""
    limit = values.topk(k, dim=-1).values[..., -1:]
    columns = torch.arange(0, -values.shape[-1], -1, dtype=torch.float32, device=values.device)  # exact below 2^24
    order = columns.masked_fill(values != limit, torch.inf).masked_fill(values < limit, -torch.inf)
    return order.topk(k, dim=-1).indices.sort(dim=-1).values


CANDIDATES = 64  # blocks beyond k to look for ties in; four times as many while these do not hold them all


def _lowest_of_ties(values: Tensor, maxima: Tensor | None, rows: Tensor, kth: Tensor, k: int) -> Tensor:
    """Columns of the k largest values of some rows, of which `kth` is the smallest; ties go to the lower column."""
    if maxima is None:
        return _lowest(values[rows], kth, k)
    numbers = rows.flatten().nonzero()[:, 0]
    maxima, count = maxima[numbers], k + CANDIDATES
    while count < maxima.shape[1]:
        chosen = _columns_of_largest(maxima, count)
        if bool((maxima.gather(-1, chosen).amin(-1, keepdim=True) < kth).all()):  # no tie is in any other block
            break
        count = k + 4 * (count - k)
    else:
        chosen = torch.arange(maxima.shape[1], device=values.device).expand(maxima.shape)
    chosen = chosen.sort(dim=-1).values  # so that candidates are in the order of their columns
    return _columns_of(chosen, _lowest(_blocks(values, numbers, chosen), kth, k))


def _lowest(rows: Tensor, kth: Tensor, k: int) -> Tensor:
    """Columns of all that is above the k-th largest value, and of the first that equal it."""
    above, equal = ~(rows <= kth), rows == kth  # NaN is above everything, as in topk
    wanted = above | (equal & (equal.cumsum(-1, dtype=torch.int32) <= k - above.sum(-1, keepdim=True)))
    return wanted.nonzero()[:, 1].view(-1, k)


@dataclass(frozen=True)
class Write:
    """What one partition did: the words it set, what their logits were, what they became."""

    name: str
    words: Words
    now: Float[Tensor, "B T S"]
    scores: Float[Tensor, "B T S"]


@runtime_checkable
class Logits(Protocol):
    """One logit per word and position, of which partitions overwrite some."""

    @property
    def written(self) -> Sequence[Write]: ...

    @property
    def values(self) -> Tensor:
        """All logits, B T V."""

    def at(self, words: Words) -> Tensor:
        """Logits of these words. Where a word is not present the value means nothing."""

    def top(self, k: int) -> Words:
        """W(k): the k words with the highest logits, ties to the lower id."""

    def overwrite(self, write: Write) -> Logits:
        """Logits in which the present words have these scores; what was there before gets no gradient."""

    def logsumexp(self) -> Tensor:
        """log Z."""

    def log_softmax(self) -> Tensor:
        """All logits minus log Z, B T V."""

    def mean(self) -> Tensor:
        """The mean logit over the vocabulary."""


@dataclass(frozen=True)
class DenseLogits:
    """The reference: all positions x the whole vocabulary, in one tensor."""

    values: Float[Tensor, "B T V"]
    written: tuple[Write, ...] = ()

    @staticmethod
    def of(logits: Logits) -> DenseLogits:
        """The same logits, to be read and changed at will."""
        return logits if isinstance(logits, DenseLogits) else DenseLogits(logits.values, tuple(logits.written))

    def at(self, words: Words) -> Float[Tensor, "B T S"]:
        return self.values.gather(-1, words.expanded(self.values.shape[1]))

    def top(self, k: int) -> Words:
        return highest(self.values, k)

    def overwrite(self, write: Write) -> DenseLogits:
        size = self.values.shape[-1]
        spare = F.pad(self.values, (0, 1))  # one column more: the target of all that is not present
        target = write.words.target(size).expand_as(write.scores)
        values = spare.scatter(-1, target, write.scores.to(spare.dtype))[..., :size]
        return replace(self, values=values, written=(*self.written, write))

    def logsumexp(self) -> Float[Tensor, "B T"]:
        return self.values.logsumexp(-1)

    def log_softmax(self) -> Float[Tensor, "B T V"]:
        return self.values - self.logsumexp()[..., None]

    def mean(self) -> Float[Tensor, "B T"]:
        return self.values.mean(-1)

    def writers(self) -> tuple[Int[Tensor, "B T V"], tuple[str, ...]]:
        """Who wrote each logit last: an index into the returned names; 0 is V, the softmax over the vocabulary."""
        *shape, size = self.values.shape
        writer = torch.zeros((*shape, size + 1), dtype=torch.int8, device=self.values.device)
        for number, write in enumerate(self.written, start=1):
            writer.scatter_(-1, write.words.target(size).expand_as(write.scores), number)
        return writer[..., :size], ("V", *(write.name for write in self.written))


def highest(values: Float[Tensor, "B T V"], k: int) -> Words:
    """W(k) of these logits."""
    ids = top(values.detach(), k)
    return Words(ids, torch.ones_like(ids, dtype=torch.bool), complete=True)
