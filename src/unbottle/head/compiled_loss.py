"""The fused loss as one operator of torch.compile: a compiled training step keeps its memory.

The compiler sees tensors that go in, losses and gradients that come out. Inside runs `FusedLoss`, on the head that is
known by its number.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet

from unbottle.head.embedding import Embedding
from unbottle.head.inputs import Inputs
from unbottle.head.tokens import Readers, Tokens
from unbottle.ops import product_dtype

if TYPE_CHECKING:
    from unbottle.head.head import Head

HEADS: weakref.WeakValueDictionary[int, Head] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def register(head: Head) -> int:
    """The number by which the operator finds this head. A copy of a head needs one of its own."""
    number = next(_numbers)
    HEADS[number] = head
    return number


def compiled_loss(
    head: Head, x: Inputs, labels: Int[Tensor, "B T"], weights: Float[Tensor, "B T"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
    """As `FusedLoss`: the sum of weights * losses, and the losses."""
    bias = [] if x.embedding.bias is None else [x.embedding.bias]
    constants = [tensor.view_as(tensor) for tensor in (labels, *_constants(x))]  # no tensor may be given twice
    labels, *constants = constants
    tensors = [*x.tensors().values(), x.embedding.weight, *bias, *head.own_weights, *constants]
    dtype = product_dtype(x.embedding.weight)
    options = (
        [torch.is_grad_enabled() and tensor.requires_grad for tensor in tensors],
        x.embedding.scale,
        x.embedding.softcap,
        None if dtype == x.embedding.weight.dtype else dtype,
        x.start,
        x.source is not None,
        bool(bias),
    )
    total, losses = _Function.apply(head.number, options, labels, weights, *tensors)
    return total, losses


class _Function(torch.autograd.Function):
    """The operator returns gradients; the backward pass scales them."""

    @staticmethod
    def forward(ctx: Any, number: int, options: tuple, labels: Tensor, weights: Tensor, *tensors: Tensor) -> Any:
        losses, gradients = torch.ops.unbottle.fused_loss(number, list(tensors), labels, weights, *options)
        ctx.save_for_backward(*gradients)
        ctx.wanted = options[0]
        ctx.mark_non_differentiable(losses)
        return (losses * weights).sum(), losses

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        scaled = [saved * gradient for saved in ctx.saved_tensors]
        return None, None, None, None, *[scaled.pop(0) if wanted else None for wanted in ctx.wanted]


torch.library.define(
    "unbottle::fused_loss",
    "(int head, Tensor[] tensors, Tensor labels, Tensor weights, bool[] wanted, float scale, float? softcap, "
    "ScalarType? product, int? start, bool source, bool bias) -> (Tensor, Tensor[])",
    tags=torch.Tag.pt2_compliant_tag,
)


@torch.library.impl("unbottle::fused_loss", "CompositeExplicitAutograd")
def _fused_loss(
    number: int,
    tensors: list[Tensor],
    labels: Tensor,
    weights: Tensor,
    wanted: list[bool],
    scale: float,
    softcap: float | None,
    product: torch.dtype | None,
    start: int | None,
    source: bool,
    bias: bool,
) -> tuple[Tensor, list[Tensor]]:
    head = HEADS[number]
    with _with_autograd(), torch.no_grad(), torch.autocast(labels.device.type, product, enabled=product is not None):
        x = _inputs(head, tensors, scale, softcap, start, source, bias)
        differentiable = len(tensors) - len(_constants(x))
        losses, gradients = head.fused_loss(records=any(wanted)).run(x, labels, weights, wanted[:differentiable])
    triples = zip(tensors, gradients, wanted, strict=False)  # of the constants there are no gradients
    pairs = [(tensor, gradient) for tensor, gradient, is_wanted in triples if is_wanted]
    return losses, [torch.zeros_like(t, memory_format=FORMAT) if g is None else g.to(t.dtype) for t, g in pairs]


FORMAT = torch.contiguous_format


@torch.library.register_fake("unbottle::fused_loss")
def _(number: int, tensors: list[Tensor], labels: Tensor, weights: Tensor, wanted: list[bool], *options: Any) -> Any:
    gradients = zip(tensors, wanted, strict=True)
    return torch.empty_like(weights, memory_format=FORMAT), [
        torch.empty_like(tensor, memory_format=FORMAT) for tensor, is_wanted in gradients if is_wanted
    ]


@contextlib.contextmanager
def _with_autograd() -> Iterator[None]:
    """An operator may be called below autograd, and inside a dispatch mode; what it does itself needs autograd."""
    included = DispatchKeySet(DispatchKey.BackendSelect) | DispatchKeySet(DispatchKey.ADInplaceOrView)
    excluded = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.AutocastCUDA)
    with torch._C._ForceDispatchKeyGuard(included, excluded):
        yield


def _constants(x: Inputs) -> list[Tensor]:
    """The tensors of the inputs that have no gradient."""
    readers = x.context.readers
    assert readers is not None
    text = [x.positions, x.context.ids, x.context.first, x.context.readable]
    source = [] if x.source is None else [x.source.ids, x.source.first, x.source.readable]
    return [*text, readers.documents, readers.own, readers.last, readers.real, *source]


def _inputs(
    head: Head, tensors: list[Tensor], scale: float, softcap: float | None, start: int | None, source: bool, bias: bool
) -> Inputs:
    """What `compiled_loss` was given, from its tensors."""
    rest = iter(tensors)
    q, h = next(rest), next(rest)
    keys = {*head.context_keys, *head.source_keys}
    projected = {name: next(rest) for name in head.L if name not in keys}
    of_context = {name: next(rest) for name in head.context_keys}
    of_source = {name: next(rest) for name in head.source_keys}
    weight = next(rest)
    embedding = Embedding(weight=weight, bias=next(rest) if bias else None, scale=scale, softcap=softcap)
    for _ in head.own_weights:  # the head has them itself
        next(rest)
    positions, ids, first, readable, documents, own, last, real = (next(rest) for _ in range(8))
    return Inputs(
        q=q,
        h=h,
        positions=positions,
        start=start,
        context=Tokens(ids, first, readable, of_context, Readers(documents, own, last, real)),
        source=Tokens(next(rest), next(rest), next(rest), of_source) if source else None,
        embedding=embedding,
        L=head.L,
        L_h=head.L_h,
        projected=projected,
    )
