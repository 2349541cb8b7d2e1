"""Projection: L^f, a linear layer that starts as a multiple of the identity.

A `Form` says how the projections of a head are parameterised. The functions are the same, the steps of an optimizer are
not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from unbottle.ops import float16_widened, linear


@dataclass(frozen=True, kw_only=True)
class Form:
    """Adam moves every weight by the learning rate, whatever its gradient: a parameterisation is a learning rate.

    A full matrix then moves what it gives by the learning rate times the sum of what it reads. `scaled` divides that
    by the square root of the width, so that the learning rate of the model at hand suits its head too. With a `lead`,
    what all words share (L_V and L_h) learns faster than what some words add to it.
    """

    residual: bool = False  # f_C = f_V + L_C(q), and so for E and R
    unit: bool = False  # Mi reads states of length sqrt(D)
    scaled: bool = False  # f = start + L(q) / sqrt(width), L = 0; of a product only the queries start at 0
    lead: float = 1.0  # with `scaled`: L_V and L_h are divided by so much less
    tamed: bool = False  # what starts at nothing is divided by D^(1/4)
    mark: int | None = None  # stands beside the weights, which mean something else in another form; old forms have none

    def projection(self, need: Needs, width: int, size: int, *, bias: bool) -> Projection:
        """L^f as it starts, from `width` numbers to `size`."""
        shared = self.residual and need.kind == "partition"
        if not self.scaled:
            start = 0.0 if shared else need.start
            divisor = size**0.25 if self.tamed and start <= WHISPER else 1.0
            return Projection(width, size, start=start, bias=bias, divisor=divisor)
        divisor = self.divisor(width, shared=need.kind == "vocabulary")
        start = divisor / size**0.5 if need.kind == "key" else 0.0  # keys of about unit length: attaching sees to it
        return Projection(width, size, start=start, bias=bias, divisor=divisor, skip=need.kind == "vocabulary")

    def divisor(self, width: int, *, shared: bool = False) -> float:
        """By what the product of a matrix with `width` numbers is divided; `shared`: it acts on all words."""
        return width**0.5 / (self.lead if shared else 1.0) if self.scaled else 1.0


FORMS = {
    "scaled": Form(residual=True, unit=True, scaled=True, mark=1),
    "balanced": Form(residual=True, unit=True, scaled=True, lead=4.0, mark=3),
    "paper": Form(),
    "folded": Form(unit=True, mark=2),
    "residual": Form(residual=True),
    "steady": Form(residual=True, unit=True, tamed=True),
}
DEFAULT_FORM = "scaled"
FROZEN_FORM = "balanced"  # where the backbone is frozen, or adapted by LoRA: safe there, and faster
OLD_NAMES = {"separate": "paper", "difference": "residual"}  # in files that older versions wrote


def current_name(form: str) -> str:
    """The name of a form today, also if an old file has its old name."""
    return OLD_NAMES.get(form, form)


def form_for(train: str) -> str:
    """The default where all weights are trained, or only the head, or adapters and the head ("all", "head", "lora")."""
    return DEFAULT_FORM if train == "all" else FROZEN_FORM


WHISPER = 1e-10  # where the paper starts L_PD, L_LD, L_PE, L_LE: so quiet that a fresh head is the plain softmax


# vocabulary: f . w_x for all words; partition: f . w_x for some, so it may be learnt as a difference from f_V;
# query and key: the two factors of a product that is added to something; an added f . w_x is a query too
Kind = Literal["vocabulary", "partition", "query", "key"]


@dataclass(frozen=True)
class Needs:
    """A projection that a partition or a distribution asks for."""

    name: str  # the paper's letters
    kind: Kind = "partition"
    start: float = 1.0  # the paper's
    of: Literal["q", "source"] = "q"  # what it projects: q, or the states of the encoder


class Affine(nn.Module):
    """W x + b. No `nn.Linear`: what adapts or converts every linear layer (PEFT, quantisation) knows no divisor."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias: nn.Parameter | None = nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    @abstractmethod
    def reset_parameters(self) -> None:
        """Start again."""

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Projection(Affine):
    """L^f(q) = (W q + b) / divisor, to which `skip` adds the h^M part of q.

    W starts as start * [I | 0]: on the h^M part of q, zero on the Mi part; b starts at zero.
    """

    kernel: Callable[[Tensor], Tensor] | None = None  # q -> W q + b without gradients, for engines

    def __init__(
        self, in_features: int, out_features: int, *, start: float, bias: bool, divisor: float = 1.0, skip: bool = False
    ) -> None:
        self.start, self.divisor, self.skip = start, divisor, skip
        super().__init__(in_features, out_features, bias=bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.eye_(self.weight)
        quietest = torch.finfo(self.weight.dtype).tiny if self.start else 0.0  # fp16 has no 1e-10
        self.weight.mul_(max(self.start, quietest))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor, base: Tensor | None = None) -> Tensor:
        """L^f(q), added to a `base` where one is given."""
        product = self._product(input)
        base = input[..., : self.out_features] if self.skip else base
        if base is not None:
            return torch.add(base, product, alpha=1 / self.divisor)
        return product if self.divisor == 1.0 else product / self.divisor

    def folded(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the same function as a plain linear layer."""
        weight = self.weight / self.divisor
        if self.skip:
            weight = weight + torch.eye(*weight.shape, dtype=weight.dtype, device=weight.device)
        return weight, None if self.bias is None else self.bias / self.divisor

    def _product(self, input: Tensor) -> Tensor:
        if self.kernel is not None:
            return self.kernel(input)
        if self.start in (0.0, 1.0):
            return linear(input, self.weight, self.bias)
        with float16_widened(input, self.weight) as (x, weight):
            return linear(x, weight, None if self.bias is None else self.bias.to(weight.dtype))
