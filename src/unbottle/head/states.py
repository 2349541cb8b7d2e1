"""What a head reads: the decoder's hidden states with the words they stand on, and the encoder's."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class States:
    """Hidden states of the decoder at some positions.

    `layers[:, :, m]` is h^{M-m}; layer 0 is what the plain output layer would receive.
    `mask` is False on padding: no word there, and no hidden state for Mi. `readable` is False where the position is
    real but its word is in no S (a decoder start token that is padding). Positions see each other only where their
    `documents` agree.
    """

    layers: Float[Tensor, "B T L D"]
    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"] | None = None
    readable: Bool[Tensor, "B T"] | None = None
    documents: Int[Tensor, "B T"] | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """The encoder input I: its words and the encoder's last hidden states. `mask` is False on padding."""

    states: Float[Tensor, "B N E"]
    ids: Int[Tensor, "B N"]
    mask: Bool[Tensor, "B N"] | None = None
