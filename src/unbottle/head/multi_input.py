"""MultiInput (Mi): a block of hidden states, several layers and positions, widens the hidden state."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class MultiInput(nn.Linear):
    """L^h: q_t = h_t^M ++ GELU(L^h(h_t^M ++ h_{t-1}^M ++ ... ++ h_{t-W+1}^{M-L+1}))       eq:multi-hidden

    Layer offset outer (the last layer first), position offset inner. Positions before the start, of another document
    and padding are zeros. GELU in its tanh form, as in GPT-2.
    """

    def __init__(self, size: int, layers: int, window: int) -> None:
        super().__init__(layers * window * size, size)

    def forward(self, input: Float[Tensor, "*P L W D"]) -> Float[Tensor, "*P D"]:
        return F.gelu(super().forward(input.flatten(-3)), approximate="tanh")

    def q(self, h: Float[Tensor, "*P D"], block: Float[Tensor, "*P L W D"]) -> Float[Tensor, "*P Q"]:
        """The last hidden state, widened by its block."""
        return torch.cat([h, self(block)], dim=-1)


def blocks(
    layers: Float[Tensor, "B N L D"],
    mask: Bool[Tensor, "B N"],
    documents: Int[Tensor, "B N"],
    positions: Int[Tensor, " T"],
    window: int,
) -> Float[Tensor, "B T L W D"]:
    """For each of some positions, its hidden states and those of the window before it."""
    earlier = positions[:, None] - torch.arange(window, device=positions.device)  # T W
    inside, earlier = earlier >= 0, earlier.clamp(min=0)
    same = documents[:, earlier] == documents[:, positions, None]
    real = inside & mask[:, earlier] & same
    layer = torch.arange(layers.shape[2], device=layers.device)[:, None]
    return layers[:, earlier[:, None], layer].where(real[:, :, None, :, None], 0)
