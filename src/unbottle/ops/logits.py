"""Logits: the seam between readable and fast. A partition sees `top` and `at`, not what is behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from unbottle.ops.top import top
from unbottle.ops.words import Words


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
    return Words(ids, torch.ones_like(ids, dtype=torch.bool))
