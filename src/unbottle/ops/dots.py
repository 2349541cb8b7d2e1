"""dots: f . w_x for sets of words, without writing out the embeddings of every word of every set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unbottle.ops.precision import product_dtype
from unbottle.ops.sparse import Sampled, sampled
from unbottle.ops.weight_gradient import WeightGradient


def dots(
    f: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    ids: Int[Tensor, "B #T S"],
    into: WeightGradient | None = None,
) -> Float[Tensor, "B T S"]:
    """f . w_x for the words of each position. The gradient of the weight is added to `into` where that is given."""
    if torch.compiler.is_compiling():
        rows = weight[ids]
        return f @ rows[:, 0].mT if ids.shape[1] == 1 else (rows @ f[..., None])[..., 0]
    if not ids.shape[-1]:
        return f[..., :0]
    dtype = product_dtype(weight)
    f, weight = f.to(dtype), weight.to(dtype)
    shared = ids.shape[1] == 1 and f.shape[1] != 1
    result: Tensor = (SharedDots if shared else OwnDots).apply(f, weight, ids, into)
    return result


class SharedDots(torch.autograd.Function):
    """All positions of a row look at the same words: one small matrix product per row."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, weight: Tensor, ids: Tensor, into: WeightGradient | None) -> Tensor:
        ctx.save_for_backward(f, weight, ids)
        ctx.into = into
        return f @ weight[ids[:, 0]].mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        f, weight, ids = ctx.saved_tensors
        to_f = gradient @ weight[ids[:, 0]] if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_f, None, None, None
        words = (gradient.mT @ f).flatten(0, 1)  # a word that stands twice in the row gets both
        return to_f, _gathered(ctx, weight, lambda into: into.add_rows(ids.flatten(), words)), None, None


class OwnDots(torch.autograd.Function):
    """Each position looks at words of its own: a product of which only some entries are computed."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, weight: Tensor, ids: Tensor, into: WeightGradient | None) -> Tensor:
        ctx.save_for_backward(f, weight, ids)
        ctx.into = into
        flat = f.flatten(0, 1)
        return sampled(flat, weight, ids.expand(-1, f.shape[1], -1).flatten(0, 1)).view(*f.shape[:2], ids.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        f, weight, ids = ctx.saved_tensors
        ids = ids.expand(-1, f.shape[1], -1).flatten(0, 1)
        flat, gradient = f.flatten(0, 1), gradient.flatten(0, 1)
        to_f = None
        if ctx.needs_input_grad[0]:
            to_f = F.embedding_bag(ids, weight, mode="sum", per_sample_weights=gradient.to(weight.dtype)).view_as(f)
        if not ctx.needs_input_grad[1]:
            return to_f, None, None, None
        return to_f, _gathered(ctx, weight, lambda into: into.add_sampled(Sampled(ids, gradient, flat))), None, None


def _gathered(ctx: Any, weight: Tensor, add: Callable[[WeightGradient], None]) -> Tensor | None:
    """Gradient of the weight: added where it is gathered, or a tensor of its own."""
    into, ctx.into = ctx.into, None
    if into is not None:
        add(into)
        return None
    alone = WeightGradient(weight)
    add(alone)
    return alone.total().to(weight.dtype)
