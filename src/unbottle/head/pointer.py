"""Pointer: where PG, PS and CopyNet copy from, and with which projections they look there."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from unbottle.head.inputs import Inputs
from unbottle.head.projection import WHISPER, Needs
from unbottle.head.tokens import Tokens
from unbottle.ops import widen


@dataclass(frozen=True)
class Pointer:
    """I is the encoder input where there is an encoder (f_PE, L_LE), else the visible context (f_PD, L_LD)."""

    source: bool

    @property
    def where(self) -> str:
        """Which words can be copied, for people."""
        return "x in I" if self.source else "x in c_t"

    @property
    def query(self) -> str:
        return "PE" if self.source else "PD"

    @property
    def key(self) -> str:
        return "LE" if self.source else "LD"

    @property
    def needs(self) -> tuple[Needs, ...]:
        return (
            Needs(self.query, "query", WHISPER),
            Needs(self.key, "key", WHISPER, "source" if self.source else "q"),
        )

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def text(self, x: Inputs) -> Tokens:
        return x.text(source=self.source)

    def states(self, x: Inputs) -> Float[Tensor, "B N D"]:
        """L_L(h_j) of every token."""
        return self.text(x).keys[self.key]

    def dot(self, x: Inputs, states: Float[Tensor, "B N D"]) -> Float[Tensor, "B T N"]:
        """f_P . state of every token."""
        return widen(self.text(x).dot(x.f(self.query), states))
