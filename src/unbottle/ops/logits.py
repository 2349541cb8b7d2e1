"""Logits: the seam between readable and fast. A partition sees `top` and `at`, not what is behind."""

from __future__ import annotations

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
    def written(self) -> tuple[Write, ...]: ...

    def at(self, words: Words) -> Tensor:
        """Logits of these words. Where a word is not present the value means nothing."""

    def top(self, k: int) -> Words:
        """W(k): the k words with the highest logits, ties to the lower id."""

    def overwrite(self, name: str, words: Words, scores: Tensor) -> Logits:
        """Logits in which the present words have these scores; what was there before gets no gradient."""

    def logsumexp(self) -> Tensor:
        """log Z."""


@dataclass(frozen=True)
class DenseLogits:
    """The reference: all positions x the whole vocabulary, in one tensor."""

    values: Float[Tensor, "B T V"]
    written: tuple[Write, ...] = ()

    def at(self, words: Words) -> Float[Tensor, "B T S"]:
        return self.values.gather(-1, words.expanded(self.values.shape[1]))

    def top(self, k: int) -> Words:
        ids = top(self.values.detach(), k)
        return Words(ids, torch.ones_like(ids, dtype=torch.bool))

    def overwrite(self, name: str, words: Words, scores: Float[Tensor, "B T S"]) -> DenseLogits:
        size = self.values.shape[-1]
        spare = F.pad(self.values, (0, 1))  # one column more: the target of all that is not present
        target = words.ids.where(words.present, size).expand_as(scores)
        values = spare.scatter(-1, target, scores.to(spare.dtype))[..., :size]
        return replace(self, values=values, written=(*self.written, Write(name, words, self.at(words), scores)))

    def logsumexp(self) -> Float[Tensor, "B T"]:
        return self.values.logsumexp(-1)

    def writers(self) -> tuple[Int[Tensor, "B T V"], tuple[str, ...]]:
        """Who wrote each logit last: an index into the returned names; 0 is V, the softmax over the vocabulary."""
        size = self.values.shape[-1]
        writer = torch.zeros((*self.values.shape[:-1], size + 1), dtype=torch.int8, device=self.values.device)
        for number, write in enumerate(self.written, start=1):
            target = write.words.ids.where(write.words.present, size).expand_as(write.scores)
            writer.scatter_(-1, target, number)
        return writer[..., :size], ("V", *(write.name for write in self.written))
