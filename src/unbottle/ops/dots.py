"""dots: f . w_x for sets of words, without writing out the embeddings of every word of every set."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unbottle.ops.precision import product_dtype
from unbottle.ops.weight_gradient import WeightGradient

BLOCK = 2**22  # numbers that are gathered at once where there is no sparse kernel


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
        to_weight = _gathered(ctx, weight, lambda total: total.index_add_(0, ids.flatten(), words.to(total.dtype)))
        return to_f, to_weight, None, None


class OwnDots(torch.autograd.Function):
    """Each position looks at words of its own: a product of which only some entries are computed."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, weight: Tensor, ids: Tensor, into: WeightGradient | None) -> Tensor:
        ctx.save_for_backward(f, weight, ids)
        ctx.into = into
        flat = f.flatten(0, 1)
        return _sampled(flat, weight, ids.expand(-1, f.shape[1], -1).flatten(0, 1)).view(*f.shape[:2], -1)

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
        return to_f, _gathered(ctx, weight, lambda total: _add_sampled(total, ids, gradient, flat)), None, None


def _sampled(f: Float[Tensor, "P D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]) -> Float[Tensor, "P S"]:
    """Entry (p, s) is f_p . w of ids[p, s]."""
    if _has_sparse_kernels(f):
        starts = torch.arange(len(ids) + 1, device=f.device) * ids.shape[1]
        pattern = _csr(starts, ids.flatten(), f.new_zeros(ids.numel()), (len(ids), len(weight)))
        products: Tensor = torch.sparse.sampled_addmm(pattern, f, weight.mT, beta=0.0)
        return products.values().view(ids.shape)
    step = max(1, BLOCK // max(1, ids.shape[1] * f.shape[1]))
    pairs = zip(f.split(step), ids.split(step), strict=True)
    return torch.cat([(weight[words] @ rows[..., None])[..., 0] for rows, words in pairs])


def _add_sampled(
    total: Float[Tensor, "V D"], ids: Int[Tensor, "P S"], gradient: Float[Tensor, "P S"], f: Float[Tensor, "P D"]
) -> None:
    """Row x of the total gets the sum of gradient * f over the pairs whose word is x."""
    if _has_sparse_kernels(f) and total.dtype == f.dtype:
        words, positions = ids.flatten(), torch.arange(len(f), device=f.device)[:, None].expand_as(ids).flatten()
        order = words.argsort(stable=True)
        starts = F.pad(words.bincount(minlength=len(total)).cumsum(0), (1, 0))
        total.addmm_(_csr(starts, positions[order], gradient.flatten()[order], (len(total), len(f))), f)
        return
    step = max(1, BLOCK // max(1, ids.shape[1] * f.shape[1]))
    for words, weights, rows in zip(ids.split(step), gradient.split(step), f.split(step), strict=True):
        total.index_add_(0, words.flatten(), (weights[..., None] * rows[:, None]).flatten(0, 1).to(total.dtype))


def _gathered(ctx: Any, weight: Tensor, add: Callable[[Tensor], object]) -> Tensor | None:
    """Gradient of the weight: added where it is gathered, or a tensor of its own."""
    into, ctx.into = ctx.into, None
    if into is not None:
        into.later(add)
        return None
    alone = WeightGradient(weight)
    alone.later(add)
    return alone.total().to(weight.dtype)


def _has_sparse_kernels(like: Tensor) -> bool:
    return like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64) and like.numel() > 0


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _hear_the_warning()
    return torch.sparse_csr_tensor(starts, columns, values, shape)


@functools.cache
def _hear_the_warning() -> None:
    """torch says once that sparse matrices are in beta; it says it here, where nobody is disturbed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))
