"""linear: rows times a weight. Few rows are multiplied as columns, which is faster on a CPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.ops.device import is_accelerator

FEW = 32  # rows
LARGE = 2**23  # numbers of a weight: reading it takes longer than bringing threads together


def linear(
    rows: Float[Tensor, "*P D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None = None
) -> Float[Tensor, "*P V"]:
    """Equals `F.linear(rows, weight, bias)`.

    A product with few rows takes as long as reading the weight, and how fast MKL reads it depends on how it is asked: a
    few rows as columns, at least two of them, can be several times as fast as the same rows. One row with a small
    weight stays as it is: one thread multiplies it, which does not wait for others where cores are busy.
    """
    if not multiplies_as_columns(rows, weight):
        return F.linear(rows, weight, bias)
    product = as_columns(rows.reshape(-1, rows.shape[-1]), weight)
    if bias is not None:
        product = product + bias[:, None]
    return product.mT.reshape(*rows.shape[:-1], len(weight)).contiguous()


def multiplies_as_columns(rows: Float[Tensor, "*P D"], weight: Float[Tensor, "V D"]) -> bool:
    """Whether this product is faster with the rows as columns: there are few of them, and MKL multiplies them."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or is_accelerator(rows.device) or rows.is_meta:
        return False
    count = rows.numel() // max(1, rows.shape[-1])
    if not 0 < count <= FEW or (count == 1 and weight.numel() < LARGE):
        return False
    plain = type(weight) in (Tensor, nn.Parameter) and weight.is_contiguous()
    exact = weight.dtype == rows.dtype and rows.dtype in (torch.float32, torch.float64)
    return plain and exact and torch.backends.mkl.is_available() and not torch.is_autocast_enabled("cpu")


def as_columns(rows: Float[Tensor, "P D"], weight: Float[Tensor, "V D"]) -> Float[Tensor, "V P"]:
    """weight . rows^T: a product with one column would be a matrix-vector product, so a single row is taken twice."""
    if len(rows) > 1:
        return torch.mm(weight, rows.mT)
    return torch.mm(weight, rows.repeat(2, 1).mT)[:, :1]
