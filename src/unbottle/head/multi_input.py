"""MultiInput (Mi): a block of hidden states, several layers and positions, widens the hidden state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.ops import linear, widen
from unbottle.ops.device import at_once

EPS = 1e-6  # a state of zeros stays one


class MultiInput(nn.Module):
    """L^h: q_t = h_t^M ++ GELU(L^h(h_t^M ++ h_{t-1}^M ++ ... ++ h_{t-W+1}^{M-L+1}))       eq:multi-hidden

    Layer offset outer (the last layer first), position offset inner. Positions before the start, of another document
    and padding are zeros. GELU in its tanh form, as in GPT-2. A linear layer of a concatenation is a sum of linear
    layers, L^h(++_{m,i} h_{t-i}^{M-m}) = b + sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, so a part of a block is a part of L^h.
    With `unit` the states of the block are read at length sqrt(D), whatever their own. With a `divisor` the weights are
    so many times as large, and the products divided by it: the start is the same, the steps of training are not.
    """

    kernel: Callable[[Tensor], Tensor] | None = None  # whole block -> its products without gradients, for engines

    def __init__(self, size: int, layers: int, window: int, *, unit: bool = False, divisor: float = 1.0) -> None:
        super().__init__()
        self.layers, self.window, self.unit = layers, window, unit
        self.divisor = divisor
        self.weight = nn.Parameter(torch.empty(size, layers * window * size))
        self.bias = nn.Parameter(torch.empty(size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[1] ** -0.5  # as any linear layer starts
        nn.init.uniform_(self.weight, -bound * self.divisor, bound * self.divisor)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self, h: Float[Tensor, "B T D"], windows: Windows, *, before: Tensor | None = None, carry: bool = False
    ) -> tuple[Float[Tensor, "B T Q"], Float[Tensor, "B T D"] | None]:
        """q, and with `carry` what these windows add to the block of a position that comes after each of them.

        `before` is such a sum, to be added to the products of `windows`.
        """
        sums = [self._sums(states, carry) for states in windows.parts()]
        total, *later = (torch.cat(parts, dim=1) if len(sums) > 1 else parts[0] for parts in zip(*sums, strict=True))
        total = total if before is None else total + before
        block = F.gelu(torch.add(self.bias, total, alpha=1 / self.divisor), approximate="tanh")
        return torch.cat([h, block.to(h.dtype)], dim=-1), later[0] if carry else None

    def read(self, layers: Float[Tensor, "*P L D"]) -> Float[Tensor, "*P L D"]:
        """States as the block reads them."""
        if not self.unit:
            return layers
        wide = widen(layers)
        return (wide * (wide.square().mean(-1, keepdim=True) + EPS).rsqrt()).to(layers.dtype)

    def _sums(self, states: Float[Tensor, "B T L W D"], carry: bool) -> list[Float[Tensor, "B T D"]]:
        """The products of these states, and with `carry` those in the block of a position that comes after each."""
        total = self._products(states, 0)
        return [total, self._products(states[..., : self.window - 1, :], 1)] if carry else [total]

    def _products(self, states: Float[Tensor, "B T L W D"], first: int) -> Float[Tensor, "B T D"]:
        """sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, where the states begin with those of the offset i = first."""
        if self.kernel is not None and states.shape[3] == self.window:
            return widen(self.kernel(states.flatten(2)))
        weight = self.weight.unflatten(1, (self.layers, self.window, -1))
        return widen(linear(states.flatten(2), weight[:, :, first : first + states.shape[3]].flatten(1)))


BLOCK = 2**23  # numbers of windows that are written out at once


@dataclass(frozen=True)
class Windows:
    """The states that the block of each position reads: those of t, t-1, ..., t-W+1."""

    layers: Float[Tensor, "B R L D"]  # R = W - 1 + T
    window: int  # W
    real: Bool[Tensor, "B T W"] | None = (
        None  # where it is False, zeros are read; None: all layers are read as they are
    )

    @staticmethod
    def of(
        layers: Float[Tensor, "B R L D"], mask: Bool[Tensor, "B R"], documents: Int[Tensor, "B R"], window: int
    ) -> Windows:
        """Of the last T positions of R = W - 1 + T: padding and states of another document are not real."""
        same = documents.unfold(1, window, 1) == documents[:, window - 1 :, None]
        return Windows(layers, window, (mask.unfold(1, window, 1) & same).flip(-1))

    @staticmethod
    def single(layers: Float[Tensor, "B T L D"]) -> Windows:
        """Windows of one position each."""
        return Windows(layers, 1)

    def parts(self) -> Iterator[Float[Tensor, "B t L W D"]]:
        """The windows written out, by layer and offset, for some positions at a time: they are W times the states."""
        positions = self.layers.shape[1] - self.window + 1
        size = max(1, self.window * self.layers[:, 0].numel())
        step = max(1, at_once(BLOCK, self.layers.device) // size)
        for start in range(0, max(1, positions), step):
            first, count = start + self.window - 1, min(step, positions - start)
            offsets = [self.layers[:, first - i : first - i + count] for i in range(self.window)]
            states = torch.stack(offsets, dim=3)
            yield states if self.real is None else states.where(self.real[:, start : start + count, None, :, None], 0)
