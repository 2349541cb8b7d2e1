"""The fused loss: some positions at a time, forward and backward at once, in memory that is used again.

Per part: the product with the vocabulary goes into a buffer, the partitions overwrite it, the distribution reads a few
numbers from it; then the buffer becomes its own gradient, and two more products carry that to f_V and the embeddings.
All else is small and goes back through autograd. No method is restated: this is `Head.distribution` on other `Logits`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from unbottle.head.distribution import Distribution, Objective
from unbottle.head.embedding import Products, padded, product_weight
from unbottle.head.inputs import Inputs
from unbottle.ops import Logits, Tape, WeightGradient, Workspace, at_once, is_accelerator, wide, without_autocast

BUFFER = 2**25  # numbers in the buffers of all softmaxes: each part goes once through the gradient of the embeddings
SELDOM = ("q", "h")  # most methods read them through projections only: no memory for gradients that never come
PER_TOKEN = 16  # numbers that the partitions of a text keep for each position and token: about 64 bytes, measured
EVALUATION = 2  # times as many without gradients: larger parts are faster, and nothing else takes memory


@dataclass(frozen=True)
class FusedLoss:
    """The loss of a head at all positions, without the logits."""

    predict: Callable[[Inputs, Callable[[Tensor], Logits] | None], Distribution]  # Head.distribution
    weights: Sequence[Tensor]  # those that `predict` uses itself: of the gate, of the prior
    objective: Objective
    workspace: Workspace
    records: bool  # whether gradients are wanted at all
    softmaxes: int = 1  # whose logits are there at once
    in_place: bool = True  # not where log P of every word is asked for, and several softmaxes or copies make it up

    def __call__(
        self, x: Inputs, labels: Int[Tensor, "B T"], weights: Float[Tensor, "B T"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        """Sum of weights * losses, whose gradient can be taken once; and the losses, which have none."""
        bias = () if x.embedding.bias is None else (x.embedding.bias,)
        tensors = (*x.tensors().values(), x.embedding.weight, *bias, *self.weights)
        total, losses = _Function.apply(self, x, labels, weights, *tensors)
        return total, losses

    def run(
        self, x: Inputs, labels: Int[Tensor, "B T"], weights: Float[Tensor, "B T"], wanted: Sequence[bool]
    ) -> tuple[Float[Tensor, "B T"], list[Tensor | None]]:
        """The losses, and the gradients that are wanted of everything that has one."""
        sums = _Sums(x, self.weights, [self.records and each for each in wanted])
        losses, weight = torch.zeros_like(weights), product_weight(x.embedding)
        for batch, rows in parts(x, records=sums.wanted, softmaxes=self.softmaxes):
            tape = Tape(records=sums.wanted)
            with (
                torch.set_grad_enabled(sums.wanted),
                sums.part(batch, rows, tape) as part,
                self.workspace.lender(x.q.device) as lend,
            ):
                products = Products(part.embedding, tape, lend, weight)
                distribution = self.predict(part, products.logits if self.in_place else None)
                here = self.objective.losses(distribution, labels[batch, rows])
                losses[batch, rows] = here.detach()
                if sums.wanted:
                    total = (here * weights[batch, rows]).sum()
                    with without_autocast(total):
                        tape.pull(total)
                        products.backward()
        return losses, sums.gradients()


@dataclass(frozen=True)
class FusedLogits:
    """The logits of a head at all positions, written where they are returned; without gradients."""

    predict: Callable[[Inputs, Callable[[Tensor], Logits] | None], Distribution]  # Head.distribution
    objective: Objective
    reads_text: bool  # whether a long text takes more memory than the vocabulary

    def __call__(
        self, x: Inputs, labels: Int[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T"] | None]:
        """What a model returns as its logits, and the losses where there are labels."""
        shape, dtype, size = x.q.shape[:2], wide(x.q.dtype), x.embedding.vocabulary
        logits = torch.empty((*shape, padded(size)), dtype=dtype, device=x.q.device)
        losses = None if labels is None else torch.zeros(shape, dtype=dtype, device=x.q.device)
        in_parts = self.reads_text and is_long(x)
        for batch, rows in parts(x, records=False) if in_parts else [(slice(None), slice(None))]:
            part = x.part(batch, rows) if in_parts else x
            memory = logits[batch, rows].view(-1, padded(size))
            lend = _Lender(memory)
            distribution = self.predict(part, Products(part.embedding, Tape(records=False), lend).logits)
            if losses is not None and labels is not None:
                losses[batch, rows] = self.objective.losses(distribution, labels[batch, rows])
            if not distribution.is_softmax:  # what is mixed is written into the memory of the first softmax
                memory[:, :size] = distribution.scores().flatten(0, 1)
        return logits[..., :size], losses


class _Lender:
    """Lends its memory to the first who asks, and new memory to others: further softmaxes, a soft-cap."""

    def __init__(self, memory: Tensor) -> None:
        self.memory, self.is_lent = memory, False

    def __call__(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        if self.is_lent:
            return torch.empty(rows, columns, dtype=dtype, device=self.memory.device)
        self.is_lent = True
        return self.memory


class _Function(torch.autograd.Function):
    """Gradients are computed in the forward pass; the backward pass scales them and hands them out."""

    @staticmethod
    def forward(ctx: Any, fused: FusedLoss, x: Inputs, labels: Tensor, weights: Tensor, *tensors: Tensor) -> Any:
        losses, ctx.gradients = fused.run(x, labels, weights, ctx.needs_input_grad[4:])
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        ctx.mark_non_differentiable(losses)
        return (losses * weights).sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        if ctx.gradients is None:
            raise RuntimeError("the fused loss keeps no graph: to go back through it twice, set head.path = 'dense'.")
        gradients, ctx.gradients = ctx.gradients, None  # no second reference, so that nobody has to copy them
        as_they_are = not is_accelerator(gradient.device) and gradient.item() == 1
        scaled: list[Tensor | None] = []
        for dtype in ctx.dtypes:
            part = gradients.pop(0)
            scaled.append(None if part is None else (part if as_they_are else part.mul_(gradient)).to(dtype))
        return None, None, None, None, *scaled


class _Sums:
    """Gradients of everything that was given, added up over the parts."""

    def __init__(self, x: Inputs, weights: Sequence[Tensor], wanted: list[bool]) -> None:
        self.x, self.weights, self.wanted = x, weights, any(wanted)
        flags, tensors = iter(wanted), x.tensors()
        self.wanted_of_x = {name: next(flags) for name in tensors}
        self.of_x = {
            name: _zeros(tensors[name], is_wanted and name not in SELDOM)
            for name, is_wanted in self.wanted_of_x.items()
        }
        self.weight = WeightGradient(x.embedding.weight) if next(flags) else None
        self.bias = None if x.embedding.bias is None else _zeros(x.embedding.bias, next(flags))
        self.of_weights = [_zeros(weight, next(flags)) for weight in weights]

    def gradients(self) -> list[Tensor | None]:
        """In the order in which everything was given."""
        bias = [] if self.x.embedding.bias is None else [self.bias]
        weight = None if self.weight is None else self.weight.total()
        return [*self.of_x.values(), weight, *bias, *self.of_weights]

    @contextlib.contextmanager
    def part(self, batch: slice, rows: slice, tape: Tape) -> Iterator[Inputs]:
        """The inputs of a part, as leaves of the tape. Afterwards the gradients that reached them are added."""
        part, embedding = self.x.part(batch, rows), self.x.embedding
        leaves = {name: tape.leaf(tensor, wanted=self.wanted_of_x[name]) for name, tensor in part.tensors().items()}
        weight = tape.leaf(embedding.weight, wanted=self.weight is not None)
        bias = None if embedding.bias is None else tape.leaf(embedding.bias, wanted=self.bias is not None)
        tape.watch(self.weights)
        yield replace(part.replaced(leaves), embedding=replace(embedding, weight=weight, bias=bias, into=self.weight))
        gradients = {name: g for name, leaf in leaves.items() if (g := tape.gradient(leaf)) is not None}
        totals = self._totals(gradients).part(batch, rows).tensors()
        for name, added in gradients.items():
            totals[name] += added
        for total, parameter in [(self.bias, bias), *zip(self.of_weights, self.weights, strict=True)]:
            if parameter is not None and (gradient := tape.gradient(parameter)) is not None:
                assert total is not None
                total += gradient
        if self.weight is not None and (gradient := tape.gradient(weight)) is not None:
            self.weight.total().add_(gradient)

    def _totals(self, names: Collection[str]) -> Inputs:
        """The sums, laid out as x is: a part of x and the part of its gradient are cut out by the same code."""
        tensors = self.x.tensors()
        for name in names:
            if self.of_x[name] is None:
                self.of_x[name] = _zeros(tensors[name], True)
        return self.x.replaced(tensors | {name: total for name, total in self.of_x.items() if total is not None})


def _zeros(like: Tensor, wanted: bool) -> Tensor | None:
    return torch.zeros_like(like, dtype=wide(like.dtype)) if wanted else None


def parts(x: Inputs, *, records: bool, softmaxes: int = 1) -> Iterator[tuple[slice, slice]]:
    """Rows of the batch and positions to work on at once, so that memory stays the same however long a text is."""
    numbers = max(softmaxes * len(x.embedding.weight), _numbers_of_texts(x))
    return _parts(x.q.shape[:2], at_once(BUFFER if records else EVALUATION * BUFFER, x.q.device) // numbers)


def is_long(x: Inputs) -> bool:
    """Whether a text takes more memory at a position than the vocabulary does."""
    return _numbers_of_texts(x) > len(x.embedding.weight)


def _numbers_of_texts(x: Inputs) -> int:
    return PER_TOKEN * max(text.ids.shape[1] for text in (x.context, x.source) if text is not None)


def _parts(shape: torch.Size, limit: int) -> Iterator[tuple[slice, slice]]:
    """Whole sequences while they fit, otherwise positions of one sequence; parts of about the same size."""
    batch, positions = shape
    rows = _even(positions, max(1, limit))
    step = _even(batch, max(1, limit // max(1, positions)))
    for start in range(0, batch, step):
        for first in range(0, positions, rows):
            yield slice(start, start + step), slice(first, first + rows)


def _even(size: int, limit: int) -> int:
    """The smallest parts of which as few are needed as of parts of the size `limit`."""
    return max(1, -(-size // max(1, -(-size // limit))))
