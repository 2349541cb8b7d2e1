"""Embedding: the global word embeddings w_x and what the model does to their dot products."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from unbottle.ops import WeightGradient, Words, dots, widen


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """Output word embeddings, tied to the model's own, with the model's output quirks as data.

    logit(f, x) = cap(scale * f . w_x + bias_x),      cap(z) = softcap * tanh(z / softcap)
    Logits are float32 or wider, whatever the dtype of the weights.
    """

    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None
    scale: float = 1.0
    softcap: float | None = None
    into: WeightGradient | None = None  # where the fused loss gathers the gradient of the weight

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.weight.shape[0]

    def logits(self, f: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """f . w_x for the whole vocabulary."""
        return self.finish(self.products(f), self.bias)

    def at(self, f: Float[Tensor, "B T D"], words: Words) -> Float[Tensor, "B T S"]:
        """f . w_x for a set of words."""
        products = self.products_at(f, words.ids)
        return self.finish(products, None if self.bias is None else self.bias[words.ids])

    def added(self, f: Float[Tensor, "B T D"], words: Words) -> Float[Tensor, "B T S"]:
        """scale * f . w_x, to be added to logits that have the bias already."""
        return widen(self.products_at(f, words.ids)) * self.scale

    def products(self, f: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Dot products with all words; a subclass whose weight is elsewhere replaces this one and `products_at`."""
        return F.linear(f, self.weight)

    def products_at(self, f: Float[Tensor, "B T D"], ids: Int[Tensor, "B #T S"]) -> Float[Tensor, "B T S"]:
        """Dot products with some words."""
        return dots(f, self.weight, ids, self.into)

    def finish(self, products: Tensor, bias: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """Dot products -> logits; all in the memory of `out` where that is given."""
        logits = widen(products)
        if self.scale != 1.0:
            logits = torch.mul(logits, self.scale, out=out)
        if bias is not None:
            logits = torch.add(logits, bias, out=out)
        if self.softcap is not None:
            logits = torch.mul(torch.tanh(torch.div(logits, self.softcap, out=out), out=out), self.softcap, out=out)
        return logits
