"""dots: f . w_x for sets of words, without writing out the embeddings of every word of every set.

`WeightGradient` is the gradient of the word embeddings, gathered from large products and from sampled ones.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unbottle.ops import triton
from unbottle.ops.device import at_once, is_accelerator
from unbottle.ops.numerics import product_dtype, wide


def dots(
    f: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    ids: Int[Tensor, "B #T S"],
    into: WeightGradient | None = None,
) -> Float[Tensor, "B T S"]:
    """f . w_x for the words of each position. The gradient of the weight is added to `into` where that is given.

    Where products have another dtype than the weight, the rows that are read are cast, never the whole weight.
    """
    f = f.to(product_dtype(weight))
    if not ids.shape[-1]:
        return f[..., :0]
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return shared_dots(f, weight, ids[:, 0]) if ids.shape[1] == 1 else own_dots(f, weight, ids)
    result: Tensor = (SharedDots if ids.shape[1] == 1 else OwnDots).apply(f, weight, ids, into)
    return result


def shared_dots(
    f: Float[Tensor, "B T D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "B S"]
) -> Float[Tensor, "B T S"]:
    """All positions of a row look at the same words: one small matrix product per row."""
    rows = F.embedding(ids, weight)  # equals weight[ids], and reads rows that lie far apart faster
    return f.bmm(rows.to(f.dtype).mT)


def own_dots(
    f: Float[Tensor, "B T D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "B T S"]
) -> Float[Tensor, "B T S"]:
    """Each position looks at words of its own: a product of which only some entries are computed."""
    if torch.compiler.is_compiling():
        return (weight[ids].to(f.dtype) @ f[..., None])[..., 0]
    return sampled(f.flatten(0, 1), weight, ids.flatten(0, 1)).view(ids.shape)


class SharedDots(torch.autograd.Function):
    """`shared_dots` and its gradients."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, weight: Tensor, ids: Tensor, into: WeightGradient | None) -> Tensor:
        ids = ids[:, 0]
        ctx.save_for_backward(f, weight, ids)
        ctx.into = into
        return shared_dots(f, weight, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        f, weight, ids = ctx.saved_tensors
        to_f = gradient @ weight[ids].to(f.dtype) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_f, None, None, None
        words = (gradient.mT @ f).flatten(0, 1)  # a word that stands twice in the row gets both
        return to_f, _gathered(ctx, weight, lambda into: into.add_rows(ids.flatten(), words)), None, None


class OwnDots(torch.autograd.Function):
    """`own_dots` and its gradients."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, weight: Tensor, ids: Tensor, into: WeightGradient | None) -> Tensor:
        ctx.save_for_backward(f, weight, ids)
        ctx.into = into
        return own_dots(f, weight, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        f, weight, ids = ctx.saved_tensors
        ids, flat, gradient = ids.flatten(0, 1), f.flatten(0, 1), gradient.flatten(0, 1)
        to_f = None
        if ctx.needs_input_grad[0]:
            to_f = sampled_rows(gradient.to(weight.dtype), weight, ids).to(f.dtype).view_as(f)
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


BLOCK = 2**20  # numbers that are gathered at once where there is no sparse kernel: they stay in a cache
QUEUED = 64  # times as many on an accelerator


def sampled(f: Float[Tensor, "P D"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]) -> Float[Tensor, "P S"]:
    """Entry (p, s) is f_p . w of ids[p, s]."""
    if (fast := triton.implementation(f)) is not None:
        return fast.sampled(f, weight, ids)
    if _has_kernels(weight) and len(f) and ids.shape[1] <= len(weight):  # torch refuses larger patterns
        f = f.to(weight.dtype)
        starts = torch.arange(len(ids) + 1, device=f.device) * ids.shape[1]
        pattern = _csr(starts, ids.flatten(), f.new_zeros(ids.numel()), (len(ids), len(weight)))
        products: Tensor = torch.sparse.sampled_addmm(pattern, f, weight.mT, beta=0.0)
        return products.values().view(ids.shape)
    step = max(1, at_once(BLOCK, f.device, QUEUED) // max(1, ids.shape[1] * f.shape[1]))
    pairs = zip(f.split(step), ids.split(step), strict=True)
    return torch.cat([(F.embedding(words, weight).to(f.dtype) @ rows[..., None])[..., 0] for rows, words in pairs])


def sampled_rows(
    gradient: Float[Tensor, "P S"], weight: Float[Tensor, "V D"], ids: Int[Tensor, "P S"]
) -> Float[Tensor, "P D"]:
    """The transpose of `sampled` that gives the gradient of f: sum over s of gradient[p, s] * w of ids[p, s]."""
    if (fast := triton.implementation(weight)) is not None:
        return fast.sampled_rows(gradient, weight, ids)
    return F.embedding_bag(ids, weight, mode="sum", per_sample_weights=gradient)


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
    if (fast := triton.implementation(total)) is not None and not torch.are_deterministic_algorithms_enabled():
        for entry in entries:
            fast.add_sampled(total, entry.ids, entry.gradient, entry.f)
        return
    if _has_kernels(total):
        _add_at_once(total, entries)
        return
    for entry in entries:
        step = max(1, at_once(BLOCK, total.device, QUEUED) // max(1, entry.ids.shape[1] * entry.f.shape[1]))
        for ids, gradient, f in zip(
            entry.ids.split(step), entry.gradient.split(step), entry.f.split(step), strict=True
        ):
            total.index_add_(0, ids.flatten(), (gradient[..., None] * f[:, None]).flatten(0, 1).to(total.dtype))


def _add_at_once(total: Float[Tensor, "V D"], entries: Sequence[Sampled]) -> None:
    """One sparse product, because each goes through the whole total."""
    words = torch.cat([entry.ids.flatten() for entry in entries])
    gradient = torch.cat([entry.gradient.flatten() for entry in entries]).to(total.dtype)
    firsts = itertools.accumulate((len(entry.f) for entry in entries), initial=0)
    rows = torch.cat([entry.rows + first for entry, first in zip(entries, firsts, strict=False)])
    f = torch.cat([entry.f for entry in entries]).to(total.dtype)
    order = words.argsort(stable=True)
    starts = F.pad(words.bincount(minlength=len(total)).cumsum(0), (1, 0))
    total.addmm_(_csr(starts, rows[order], gradient[order], (len(total), len(f))), f)


def _has_kernels(like: Tensor) -> bool:
    """Whether there are sparse kernels for this weight."""
    on_cpu = like.device.type == "cpu" and not is_accelerator(like.device)
    return on_cpu and like.dtype in (torch.float32, torch.float64)


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _silence_beta_warning()
    return torch.sparse_csr_tensor(starts, columns, values, shape)


@functools.cache
def _silence_beta_warning() -> None:
    """Trigger torch's one-time warning that sparse CSR tensors are in beta, and discard it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))


WAITING = 16  # sampled entries wait until there is one for so many numbers of the sum


class WeightGradient:
    """A sum of V x D that is never written without need: the first large product is its start, small parts wait."""

    def __init__(self, weight: Float[Tensor, "V D"]) -> None:
        self._weight = weight
        self._dtype = wide(weight.dtype)
        self._total: Tensor | None = None
        self._rows: list[tuple[Tensor, Tensor]] = []
        self._sampled: list[Sampled] = []

    def add_rows(self, ids: Int[Tensor, " N"], rows: Float[Tensor, "N D"]) -> None:
        """Rows of the gradient; an id may stand more than once."""
        self._rows.append((ids, rows))

    def add_sampled(self, entries: Sampled) -> None:
        """Gradients of single entries of a product."""
        self._sampled.append(entries)

    def add_product(self, gradient: Float[Tensor, "P V"], rows: Float[Tensor, "P D"]) -> None:
        """The transposed gradient of some logits times what was multiplied with the weight."""
        if self._total is None and rows.dtype == self._dtype:
            self._total = gradient.mT @ rows
        elif rows.dtype == self._dtype:
            self._sum().addmm_(gradient.mT, rows)
        elif rows.is_cuda:  # the one device that adds in float32 what it multiplies in half precision
            total = self._sum()
            torch.addmm(total, gradient.mT, rows, out_dtype=self._dtype, out=total)
        else:
            self._sum().add_(gradient.mT @ rows)
        self._add_waiting(limit=self._weight.numel() // WAITING)

    def total(self) -> Float[Tensor, "V D"]:
        """The sum so far."""
        self._add_waiting(limit=0)
        return self._sum()

    def _sum(self) -> Float[Tensor, "V D"]:
        if self._total is None:
            self._total = torch.zeros_like(self._weight, dtype=self._dtype)
        return self._total

    def _add_waiting(self, limit: int) -> None:
        rows, self._rows = self._rows, []
        for ids, some in rows:
            self._sum().index_add_(0, ids, some.to(self._dtype))
        if sum(entries.ids.numel() for entries in self._sampled) > limit:
            entries, self._sampled = self._sampled, []
            add_sampled(self._sum(), entries)
