"""WeightGradient: the gradient of the word embeddings, gathered from large products and from sparse ones."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unbottle.ops.sparse import Sampled, add_sampled

WAITING = 16  # sampled entries wait until there is one for so many numbers of the sum


class WeightGradient:
    """A sum of V x D that is never written without need: the first large product is its start, small parts wait."""

    def __init__(self, weight: Float[Tensor, "V D"]) -> None:
        self._weight = weight
        self._dtype = torch.promote_types(weight.dtype, torch.float32)
        self._total: Tensor | None = None
        self._rows: list[tuple[Tensor, Tensor]] = []
        self._sampled: list[Sampled] = []

    def add_rows(self, ids: Int[Tensor, " N"], rows: Float[Tensor, "N D"]) -> None:
        """Rows of the gradient; an id may stand more than once."""
        self._rows.append((ids, rows))

    def add_sampled(self, entries: Sampled) -> None:
        """Gradients of single entries of a product."""
        self._sampled.append(entries)

    def add_product(self, gradient: Float[Tensor, "P V"], rows: Float[Tensor, "P D"]) -> None:
        """The transposed gradient of some logits times what was multiplied with the weight."""
        if self._total is None and rows.dtype == self._dtype:
            self._total = gradient.mT @ rows
        elif rows.dtype == self._dtype:
            self._sum().addmm_(gradient.mT, rows)
        else:
            self._sum().add_(gradient.mT @ rows)
        self._add_waiting(limit=self._weight.numel() // WAITING)

    def total(self) -> Float[Tensor, "V D"]:
        """The sum so far."""
        self._add_waiting(limit=0)
        return self._sum()

    def _sum(self) -> Float[Tensor, "V D"]:
        if self._total is None:
            self._total = torch.zeros_like(self._weight, dtype=self._dtype)
        return self._total

    def _add_waiting(self, limit: int) -> None:
        rows, self._rows = self._rows, []
        for ids, some in rows:
            self._sum().index_add_(0, ids, some.to(self._dtype))
        if sum(entries.ids.numel() for entries in self._sampled) > limit:
            entries, self._sampled = self._sampled, []
            add_sampled(self._sum(), entries)
