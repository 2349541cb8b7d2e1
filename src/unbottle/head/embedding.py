"""Embedding: the output word embeddings w_x, and what the model does to their dot products.

`Products` computes f_V . w_x for the whole vocabulary in memory that is lent, and its gradient in the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from unbottle.ops import (
    InPlaceLogits,
    Tape,
    WeightGradient,
    Words,
    as_columns,
    dots,
    linear,
    multiplies_as_columns,
    product_dtype,
    wide,
    widen,
    without_gradients,
)


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
    kernel: Callable[[Tensor], Tensor] | None = None  # f -> f . w_x of all words without gradients, for engines

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
        return linear(f, self.weight) if self.kernel is None else self.kernel(f)

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


Lend = Callable[[int, int, torch.dtype], Tensor]  # (rows, columns, dtype) -> a tensor with anything in it


class Products:
    """The vocabulary products of some positions: one for each softmax."""

    def __init__(self, embedding: Embedding, tape: Tape, lend: Lend, weight: Tensor | None = None) -> None:
        """`weight` is that of the embedding in the dtype of the products, where that was cast for several parts."""
        self.embedding, self.tape, self.lend = embedding, tape, lend
        self.weight = embedding.weight if weight is None else weight
        self.products: list[tuple[Tensor, Tensor | None, InPlaceLogits]] = []

    @without_gradients
    def logits(self, f: Float[Tensor, "B T D"]) -> InPlaceLogits:
        """f . w_x for the whole vocabulary."""
        size, dtype, low = len(self.weight), wide(f.dtype), product_dtype(self.weight)
        rows = f.detach().flatten(0, 1).to(low)
        buffer = self.lend(len(rows), padded(size), dtype)
        values = buffer[:, :size]
        if self.embedding.kernel is not None:
            values.copy_(self.embedding.kernel(rows))
        elif multiplies_as_columns(rows, self.weight):
            values.copy_(as_columns(rows, self.weight).mT)
        elif low == dtype:
            torch.mm(rows, self.weight.mT, out=values)
        elif rows.is_cuda and self.weight.dtype == low:  # the one device whose products of halves come in float32
            torch.mm(rows, self.weight.mT, out_dtype=dtype, out=values)
        else:
            values.copy_(F.linear(rows, self.weight))
        bias = None if self.embedding.bias is None else self.embedding.bias.detach()
        self.embedding.finish(values, bias, out=values)
        logits = InPlaceLogits(buffer, size, f.shape[1], self.tape)
        self.products.append((f, self._slope(values) if self.tape.records else None, logits))
        return logits

    @torch.no_grad()
    def backward(self) -> None:
        """From the gradients of what was read in the logits to those of f_V, of the embeddings and of their bias."""
        bias, into = self.embedding.bias, self.embedding.into
        for f, slope, logits in self.products:
            gradient, scale = logits.gradient()
            if slope is not None:
                gradient *= slope
            if bias is not None and bias.requires_grad:
                self.tape.add(bias, (gradient.mT @ scale)[:, 0])
            scale = scale * self.embedding.scale
            low = gradient.to(self.weight.dtype)
            if f.requires_grad:
                self.tape.add(f, ((low @ self.weight) * scale).to(f.dtype).view_as(f))
            if into is not None:
                into.add_product(low, (f.flatten(0, 1) * scale).to(low.dtype))

    def _slope(self, values: Float[Tensor, "P V"]) -> Float[Tensor, "P V"] | None:
        """What a soft-cap does to gradients: d cap(z) / dz = 1 - (cap(z) / softcap)^2."""
        if self.embedding.softcap is None:
            return None
        slope = self.lend(values.shape[0], values.shape[1], values.dtype)
        return torch.div(values, self.embedding.softcap, out=slope).square_().neg_().add_(1)


def padded(size: int) -> int:
    """Columns of a buffer for `size` words: a multiple of 32, as `top` likes it, and at least one to spare."""
    return (size // 32 + 1) * 32


def product_weight(embedding: Embedding) -> Tensor:
    """The weight in the dtype in which products are computed."""
    return embedding.weight.detach().to(product_dtype(embedding.weight))
