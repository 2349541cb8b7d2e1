"""MultiInput (Mi): a block of hidden states, several layers and positions, widens the hidden state."""

from __future__ import annotations

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
    layers, L^h(++_{m,i} h_{t-i}^{M-m}) = b + sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, so a part of a block is a part of L^h.
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
        total = self._products(windows.layers, 0)
        total = total if before is None else total + before
        block = F.gelu(torch.add(self.bias, total, alpha=1 / self.divisor), approximate="tanh")
        later = self._products(windows.layers[..., : self.window - 1, :], 1) if carry else None
        return torch.cat([h, block.to(h.dtype)], dim=-1), later

    def read(self, layers: Float[Tensor, "*P L D"]) -> Float[Tensor, "*P L D"]:
        """States as the block reads them."""
        if not self.unit:
            return layers
        wide = widen(layers)
        return (wide * (wide.square().mean(-1, keepdim=True) + EPS).rsqrt()).to(layers.dtype)

    def _products(self, states: Float[Tensor, "B T L W D"], first: int) -> Float[Tensor, "B T D"]:
        """sum_{m,i} L^h_{m,i} h_{t-i}^{M-m}, where the states begin with those of the offset i = first."""
        weight = self.weight.unflatten(1, (self.layers, self.window, -1))
        return widen(F.linear(states.flatten(2), weight[:, :, first : first + states.shape[3]].flatten(1)))


@dataclass(frozen=True)
class Windows:
    """The states that the block of each position reads, by layer and offset: row t holds those of t, t-1, ..."""

    layers: Float[Tensor, "B T L W D"]

    @staticmethod
    def of(
        layers: Float[Tensor, "B R L D"], mask: Bool[Tensor, "B R"], documents: Int[Tensor, "B R"], window: int
    ) -> Windows:
        """Of the last T positions of R = W - 1 + T. Zeros stand for padding and for states of another document."""
        count, before = layers.shape[1] - window + 1, window - 1
        same = documents.unfold(1, window, 1) == documents[:, before:, None]
        real = (mask.unfold(1, window, 1) & same).flip(-1)  # B T W
        states = torch.stack([layers[:, before - i : before - i + count] for i in range(window)], dim=3)
        return Windows(states.where(real[:, :, None, :, None], 0))

    @staticmethod
    def single(layers: Float[Tensor, "B T L D"]) -> Windows:
        """Windows of one position each."""
        return Windows(layers[..., None, :])
