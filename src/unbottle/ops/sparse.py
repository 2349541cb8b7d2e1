"""Products of which only some entries are wanted, and what they give back to the embeddings."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

BLOCK = 2**22  # numbers that are gathered at once where there is no sparse kernel


def sampled(f: Float[Tensor, "P D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]) -> Float[Tensor, "P S"]:
    """Entry (p, s) is f_p . w of ids[p, s]."""
    if _has_kernels(f) and ids.shape[1] <= len(weight):  # torch refuses patterns with more entries than the product
        starts = torch.arange(len(ids) + 1, device=f.device) * ids.shape[1]
        pattern = _csr(starts, ids.flatten(), f.new_zeros(ids.numel()), (len(ids), len(weight)))
        products: Tensor = torch.sparse.sampled_addmm(pattern, f, weight.mT, beta=0.0)
        return products.values().view(ids.shape)
    step = max(1, BLOCK // max(1, ids.shape[1] * f.shape[1]))
    pairs = zip(f.split(step), ids.split(step), strict=True)
    return torch.cat([(weight[words] @ rows[..., None])[..., 0] for rows, words in pairs])


@dataclass(frozen=True)
class Sampled:
    """Entries of a product that are wanted, and their gradients: (p, s) stands for f_p . w of ids[p, s]."""

    ids: Int[Tensor, "P S"]
    gradient: Float[Tensor, "P S"]
    f: Float[Tensor, "P D"]

    @property
    def rows(self) -> Int[Tensor, " N"]:
        """The row of f of each entry."""
        return torch.arange(len(self.f), device=self.f.device).repeat_interleave(self.ids.shape[1])


def add_sampled(total: Float[Tensor, "V D"], entries: Sequence[Sampled]) -> None:
    """Row x of the total gets the sum of gradient * f over all entries whose word is x."""
    if all(_has_kernels(each.f) and each.f.dtype == total.dtype for each in entries):
        _add_at_once(total, entries)
        return
    for each in entries:
        step = max(1, BLOCK // max(1, each.ids.shape[1] * each.f.shape[1]))
        for ids, gradient, f in zip(each.ids.split(step), each.gradient.split(step), each.f.split(step), strict=True):
            total.index_add_(0, ids.flatten(), (gradient[..., None] * f[:, None]).flatten(0, 1).to(total.dtype))


def _add_at_once(total: Float[Tensor, "V D"], entries: Sequence[Sampled]) -> None:
    """One sparse product, because each goes through the whole total."""
    words = torch.cat([each.ids.flatten() for each in entries])
    gradient = torch.cat([each.gradient.flatten() for each in entries]).to(total.dtype)
    firsts = itertools.accumulate((len(each.f) for each in entries), initial=0)
    rows = torch.cat([each.rows + first for each, first in zip(entries, firsts, strict=False)])
    f = torch.cat([each.f for each in entries])
    order = words.argsort(stable=True)
    starts = F.pad(words.bincount(minlength=len(total)).cumsum(0), (1, 0))
    total.addmm_(_csr(starts, rows[order], gradient[order], (len(total), len(f))), f)


def _has_kernels(like: Tensor) -> bool:
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
