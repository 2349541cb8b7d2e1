"""WeightGradient: the gradient of the word embeddings, gathered from large products and from sparse ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


class WeightGradient:
    """A sum of V x D that is never written without need: the first large product is its start, small parts wait."""

    def __init__(self, weight: Float[Tensor, "V D"]) -> None:
        self._weight = weight
        self._dtype = torch.promote_types(weight.dtype, torch.float32)
        self._total: Tensor | None = None
        self._later: list[Callable[[Tensor], object]] = []

    def later(self, add: Callable[[Tensor], object]) -> None:
        """`add` will be called with the sum, to add to it in place."""
        self._later.append(add)

    def add_product(self, gradient: Float[Tensor, "P V"], rows: Float[Tensor, "P D"]) -> None:
        """The transposed gradient of some logits times what was multiplied with the weight."""
        if self._total is None and rows.dtype == self._dtype:
            self._total = gradient.mT @ rows
        elif rows.dtype == self._dtype:
            self.total().addmm_(gradient.mT, rows)
        else:
            self.total().add_(gradient.mT @ rows)
        self.total()

    def total(self) -> Float[Tensor, "V D"]:
        """The sum so far."""
        if self._total is None:
            self._total = torch.zeros_like(self._weight, dtype=self._dtype)
        waiting, self._later = self._later, []
        for add in waiting:
            add(self._total)
        return self._total
