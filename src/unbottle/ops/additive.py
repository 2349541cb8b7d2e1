"""additive: v . tanh(query + key + b) for all pairs, without the tensor of all pairs."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from unbottle.ops.precision import without_autocast

BLOCK = 2**20  # numbers of all pairs x D that exist at once


def additive(
    query: Float[Tensor, "B T D"], key: Float[Tensor, "B N D"], b: Float[Tensor, " D"], v: Float[Tensor, " D"]
) -> Float[Tensor, "B T N"]:
    """Additive attention scores. The pairs are made some positions at a time, and again for the gradient."""
    if torch.compiler.is_compiling():
        return torch.tanh(query[:, :, None] + key[:, None] + b) @ v
    with without_autocast(query):
        key = key + b
        dtype = torch.promote_types(query.dtype, key.dtype)
        result: Tensor = Additive.apply(query.to(dtype), key.to(dtype), v.to(dtype))
    return result


class Additive(torch.autograd.Function):
    """B T N scores from B T D and B N D."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, v)
        parts = [torch.tanh(part[:, :, None] + key[:, None]) @ v for part in _parts(query, key)]
        return torch.cat(parts, dim=1) if parts else query.new_zeros((len(query), 0, key.shape[1]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key, v = ctx.saved_tensors
        to_query, to_key, to_v = [], torch.zeros_like(key), torch.zeros_like(v)
        start = 0
        for part in _parts(query, key):
            here = gradient[:, start : start + part.shape[1]]
            start += part.shape[1]
            pairs = torch.tanh(part[:, :, None] + key[:, None])
            to_v += here.flatten() @ pairs.flatten(0, 2)
            pairs.square_().neg_().add_(1).mul_(here[..., None]).mul_(v)
            to_query.append(pairs.sum(2))
            to_key += pairs.sum(1)
        return (torch.cat(to_query, dim=1) if to_query else torch.zeros_like(query)), to_key, to_v


def _parts(query: Tensor, key: Tensor) -> tuple[Tensor, ...]:
    """Some positions at a time."""
    return query.split(max(1, BLOCK // max(1, key.numel())), dim=1) if query.shape[1] else ()
