"""additive: v . tanh(query + key + b) for all pairs, without the tensor of all pairs."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from unbottle.ops.device import at_once, is_accelerator
from unbottle.ops.numerics import without_autocast

BLOCK = 2**20  # numbers of all pairs x D that exist at once
Part = tuple[slice, slice]  # positions, keys


def additive(
    query: Float[Tensor, "B T D"],
    key: Float[Tensor, "B N D"],
    b: Float[Tensor, " D"],
    v: Float[Tensor, " D"],
    visible: Bool[Tensor, "B #T N"] | None = None,
) -> Float[Tensor, "B T N"]:
    """Additive attention scores. The pairs are made some positions at a time, and again for the gradient.

    Scores of keys that a position does not see mean nothing: those after the last key that is seen are not computed.
    """
    if torch.compiler.is_compiling():
        return torch.tanh(query[:, :, None] + key[:, None] + b) @ v
    with without_autocast(query):
        key = key + b
        dtype = torch.promote_types(query.dtype, key.dtype)
        parts = _parts(query, key, visible)
        result: Tensor = Additive.apply(query.to(dtype), key.to(dtype), v.to(dtype), parts)
    return result


class Additive(torch.autograd.Function):
    """B T N scores from B T D and B N D."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor, parts: list[Part]) -> Tensor:
        ctx.save_for_backward(query, key, v)
        ctx.parts = parts
        scores = query.new_zeros((*query.shape[:2], key.shape[1]))
        for rows, seen in parts:
            scores[:, rows, seen] = torch.tanh(query[:, rows, None] + key[:, None, seen]) @ v
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key, v = ctx.saved_tensors
        to_query, to_key, to_v = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(v)
        for rows, seen in ctx.parts:
            here = gradient[:, rows, seen]
            pairs = torch.tanh(query[:, rows, None] + key[:, None, seen])
            to_v += here.flatten() @ pairs.flatten(0, 2)
            pairs.square_().neg_().add_(1).mul_(here[..., None]).mul_(v)
            to_query[:, rows] = pairs.sum(2)
            to_key[:, seen] += pairs.sum(1)
        return to_query, to_key, to_v, None


def _parts(query: Tensor, key: Tensor, visible: Tensor | None) -> list[Part]:
    """Some positions at a time, each with the keys up to the last that one of them sees."""
    positions, keys = query.shape[1], key.shape[1]
    step = max(1, at_once(BLOCK, key.device) // max(1, key.numel()))
    ends = [keys] * positions
    if visible is not None and keys and positions and not visible.is_meta and not is_accelerator(visible.device):
        columns = torch.arange(1, keys + 1, device=visible.device)
        ends = (visible.any(0) * columns).amax(-1).expand(positions).tolist()
    starts = range(0, positions, step)
    return [(slice(start, start + step), slice(0, max(ends[start : start + step]))) for start in starts]
