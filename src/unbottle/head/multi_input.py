"""MultiInput (Mi): a block of hidden states, several layers and positions, widens the hidden state."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.ops import widen

EPS = 1e-6  # a state of zeros stays one


class MultiInput(nn.Module):
    """L^h: q_t = h_t^M ++ GELU(L^h(h_t^M ++ h_{t-1}^M ++ ... ++ h_{t-W+1}^{M-L+1}))       eq:multi-hidden

    Layer offset outer (the last layer first), position offset inner. Positions before the start, of another document
    and padding are zeros. GELU in its tanh form, as in GPT-2. A linear layer of a concatenation is a sum of linear
    layers, L^h(++_{m,i} h_{t-i}^{M-m}) = b + sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, so the block is never written out.
    With `unit` the states of the block are read at length sqrt(D), whatever their own. With `scaled` the weights are
    sqrt(L W D) times as large, and the products divided by it: the start is the same, the steps of training are not.
    """

    def __init__(self, size: int, layers: int, window: int, *, unit: bool = False, scaled: bool = False) -> None:
        super().__init__()
        self.layers, self.window, self.unit = layers, window, unit
        self.divisor = (layers * window * size) ** 0.5 if scaled else 1.0
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
        blocks = self._blocks()
        total = windows.products(blocks)
        total = total if before is None else total + before
        total = total if self.divisor == 1.0 else total / self.divisor
        q = torch.cat([h, F.gelu(total + self.bias, approximate="tanh").to(h.dtype)], dim=-1)
        return q, windows.products(blocks[1:]) if carry else None

    def read(self, layers: Float[Tensor, "*P L D"]) -> Float[Tensor, "*P L D"]:
        """States as the block reads them."""
        if not self.unit:
            return layers
        wide = widen(layers)
        return (wide * (wide.square().mean(-1, keepdim=True) + EPS).rsqrt()).to(layers.dtype)

    def _blocks(self) -> list[tuple[Tensor, ...]]:
        """L^h_{m,i}, D x D each, by offset i. Cut at once: each cut of its own would get a gradient of the whole."""
        blocks = self.weight.unflatten(1, (self.layers * self.window, -1)).unbind(1)
        return [blocks[offset :: self.window] for offset in range(self.window)]


@dataclass(frozen=True)
class Windows:
    """Hidden states of some positions and of those before them that their blocks reach, and which may be read."""

    layers: Float[Tensor, "B R L D"]  # rows R = before + T: offset i of position t is row before + t - i
    before: int  # W - 1, or 0 where no position was seen earlier
    real: Bool[Tensor, "B T W"]

    @staticmethod
    def of(
        layers: Float[Tensor, "B N L D"],
        mask: Bool[Tensor, "B N"],
        documents: Int[Tensor, "B N"],
        positions: Int[Tensor, " T"],
        window: int,
    ) -> Windows:
        """Of some consecutive positions; not real is what comes before the start, another document, padding."""
        offsets = torch.arange(window, device=positions.device)
        earlier = positions[:, None] - offsets  # T W
        inside, earlier = earlier >= 0, earlier.clamp(min=0)
        real = inside & mask[:, earlier] & (documents[:, earlier] == documents[:, positions, None])
        if layers.shape[1] == len(positions):  # all that was ever seen: nothing to choose, so nothing to copy
            return Windows(layers, 0, real)
        rows = torch.cat([positions[:1] - offsets[1:].flip(0), positions])
        return Windows(layers[:, rows.clamp(min=0)], window - 1, real)

    @staticmethod
    def single(layers: Float[Tensor, "B T L D"]) -> Windows:
        """Windows of one position each."""
        return Windows(layers, 0, torch.ones((*layers.shape[:2], 1), dtype=torch.bool, device=layers.device))

    def products(self, blocks: Sequence[Sequence[Tensor]]) -> Float[Tensor, "B T D"]:
        """sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, for the blocks of as many offsets i as the windows reach."""
        batch, positions, width = self.real.shape
        total = widen(self.layers.new_zeros((batch, positions, self.layers.shape[-1])))
        for offset, matrices in enumerate(blocks[:width]):
            missing = min(positions, max(0, offset - self.before))  # positions whose row would be before the start
            start = max(0, self.before - offset)
            terms = (widen(F.linear(self.layers[..., m, :], matrix)) for m, matrix in enumerate(matrices))
            product = functools.reduce(torch.add, terms)[:, start : start + positions - missing]
            total = total + F.pad(product, (0, 0, missing, 0)).where(self.real[..., offset, None], 0)
        return total
