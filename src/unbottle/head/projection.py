"""Projection: L^f, a linear layer that starts as a multiple of the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.ops import float16_widened

WHISPER = 1e-10  # where the paper starts L_PD, L_LD, L_PE, L_LE: so quiet that a fresh head is the plain softmax


@dataclass(frozen=True)
class Needs:
    """A projection that a partition or a distribution asks for."""

    name: str  # the paper's letters
    start: float = 1.0
    of: Literal["q", "source"] = "q"  # what it projects: q, or the states of the encoder
    scores_words: bool = False  # f . w_x, as f_V does: may be learnt as its difference from f_V


class Projection(nn.Linear):
    """L^f = start * [I | 0]: identity on the h^M part of q, zero on the Mi part; bias zero.

    A difference of two that start alike starts at 0. What it gives is divided by `divisor`.
    """

    def __init__(self, in_features: int, out_features: int, *, start: float, bias: bool, divisor: float = 1.0) -> None:
        self.start, self.divisor = start, divisor
        super().__init__(in_features, out_features, bias=bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.eye_(self.weight)
        quietest = torch.finfo(self.weight.dtype).tiny if self.start else 0.0  # fp16 has no 1e-10
        self.weight.mul_(max(self.start, quietest))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        product = self._product(input)
        return product if self.divisor == 1.0 else product / self.divisor

    def _product(self, input: Tensor) -> Tensor:
        if self.start in (0.0, 1.0):
            return super().forward(input)
        with float16_widened(input, self.weight) as (x, weight):
            return F.linear(x, weight, None if self.bias is None else self.bias.to(weight.dtype))
