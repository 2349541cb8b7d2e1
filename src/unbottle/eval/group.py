"""Some of the tokens, and how well they were predicted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor


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
