"""The kernels as functions of tensors, each equal to the one of plain torch that its docstring names."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from unbottle.ops.triton import kernels

BLOCK = 1024  # columns that a program reads at once
WORDS = 16  # words of a position that a program multiplies at once
MANY = 32  # entries of the gradient of the weight that a program adds up


def top(values: Float[Tensor, "... V"], k: int) -> Int[Tensor, "... K"]:
    """`logits.top`: columns of the k largest values of each row, in ascending order; ties go to the lower column.

    The k best columns lie in the k blocks with the largest maxima, ties to the lower block: each block before that of a
    column has a value that comes before it. So the vocabulary is read once, and few maxima and candidates are sorted.
    """
    rows, width = values.detach().flatten(0, -2), values.shape[-1]
    k = min(k, width)
    block = max(16, min(128, triton.next_power_of_2(max(1, int((width / k) ** 0.5)))))
    num_blocks = triton.cdiv(width, block)
    if k >= num_blocks:
        candidates = torch.arange(width, device=rows.device).expand(rows.shape)
        return _best(rows, candidates, k).view(*values.shape[:-1], k)
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    maxima = rows.new_empty((len(rows), num_blocks), dtype=_wide(rows))
    many = max(1, BLOCK // block)
    grid = (len(rows), triton.cdiv(num_blocks, many))
    kernels.block_maxima[grid](rows, maxima, rows.stride(0), width, num_blocks, _type(rows), many, block)
    blocks = _best(maxima, torch.arange(num_blocks, device=rows.device).expand(maxima.shape), k)
    candidates = (blocks[..., None] * block + torch.arange(block, device=rows.device)).flatten(-2)
    inside = candidates < width
    found = rows.gather(-1, candidates.where(inside, 0)).where(inside, -torch.inf)
    return _best(found, candidates, k).view(*values.shape[:-1], k)


def _best(values: Tensor, columns: Tensor, k: int) -> Tensor:
    """The columns of the k largest values, ascending, as `columns` are; a stable sort takes the first of ties."""
    places = values.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return columns.gather(-1, places).sort(dim=-1).values


def logsumexp(values: Float[Tensor, "P V"]) -> Float[Tensor, " P"]:
    """`values.logsumexp(-1)`, without a copy of the exponentials; rows may be longer than what is read of them."""
    assert values.stride(-1) == 1
    result = values.new_empty(len(values), dtype=_wide(values))
    kernels.row_logsumexp[(len(values),)](values, result, values.stride(0), values.shape[1], _type(values), BLOCK)
    return result.to(values.dtype)


def softmax_(values: Float[Tensor, "P V"], log_Z: Float[Tensor, " P"]) -> None:
    """`values.sub_(log_Z[:, None]).exp_()` in one pass: the gradient of log Z, in place of the logits."""
    assert values.stride(-1) == 1
    grid = (len(values), triton.cdiv(values.shape[1], BLOCK))
    kernels.row_softmax[grid](values, log_Z.contiguous(), values.stride(0), values.shape[1], _type(values), BLOCK)


def sampled(f: Float[Tensor, "P D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]) -> Float[Tensor, "P S"]:
    """`sampled_matmul.sampled`: entry (p, s) is f_p . w of ids[p, s]."""
    result = f.new_empty(ids.shape)
    size, block = f.shape[1], min(128, triton.next_power_of_2(f.shape[1]))
    grid = (len(f), triton.cdiv(ids.shape[1], WORDS))
    inputs = (f.contiguous(), weight.contiguous(), ids.contiguous(), result)
    kernels.sampled_dots[grid](*inputs, ids.shape[1], size, _type(f), WORDS, block)
    return result


def sampled_rows(
    gradient: Float[Tensor, "P S"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]
) -> Float[Tensor, "P D"]:
    """The transpose that gives the gradient of f: sum over s of gradient[p, s] * w of ids[p, s].

    Equals `embedding_bag(ids, weight, mode="sum", per_sample_weights=gradient)`.
    """
    size = weight.shape[1]
    result = weight.new_empty(len(ids), size)
    block = min(BLOCK, triton.next_power_of_2(size))
    inputs = (gradient.contiguous(), weight.contiguous(), ids.contiguous(), result)
    grid = (len(ids), triton.cdiv(size, block))
    kernels.sampled_rows[grid](*inputs, ids.shape[1], size, _type(weight), block)
    return result


def add_sampled(
    total: Float[Tensor, "V D"], ids: Int[Tensor, "P S"], gradient: Float[Tensor, "P S"], f: Float[Tensor, "P D"]
) -> None:
    """The transpose that gives the gradient of the weight: row x of the total gets all gradient * f of word x.

    Equals `total.index_add_(0, ids.flatten(), (gradient[..., None] * f[:, None]).flatten(0, 1))`; as there, the order
    of the sums is not fixed.
    """
    assert total.is_contiguous()
    words, order = ids.flatten().sort(stable=True)
    size, block = total.shape[1], min(BLOCK, triton.next_power_of_2(total.shape[1]))
    grid = (triton.cdiv(len(words), MANY), triton.cdiv(size, block))
    inputs = (words, order, gradient.contiguous(), f.contiguous(), total)
    kernels.segment_rows[grid](*inputs, len(words), ids.shape[1], size, MANY, block)


def _wide(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32)


def _type(like: Tensor) -> tl.dtype:
    """The type in which sums are computed."""
    return tl.float64 if like.dtype == torch.float64 else tl.float32
