"""Knobs: what a user may turn while a trained head predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """Settings of a head for inference. By default nothing is turned, and nothing is computed.

    `copy_bias` b makes copying more likely, or less:
        C, E, P       Logit(x) + b for each word that C, E or P wrote, once however many of them did
        CopyNet       exp Logit(x) = exp(now) + sum over the occurrences j of x of exp(f_P . L_L(h_j) + b_copynet + b)
        PG, PS        P(x) = (generated(x) + exp(b) copied(x)) / Z
    For PS that is b on every score before normalisation, for PG b on the log-odds of copying: on its scores it would
    cancel. With `pg+c` and the like both hold. wbwR still chooses its candidates as if b were 0.

    `source_only`: P(x | x is a word of the source or always allowed). The source is the encoder input, on decoder-only
    models the context. `always_allowed` is for the end of the sequence. A position without one allowed word
    (padding) keeps all.
    """

    copy_bias: float = 0.0
    source_only: bool = False
    always_allowed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "always_allowed", tuple(self.always_allowed))
        if isinstance(self.copy_bias, bool) or not math.isfinite(self.copy_bias):
            raise ValueError(f"copy_bias {self.copy_bias!r}: expected a finite number, 0 for no bias.")

    @property
    def turned(self) -> bool:
        return self.copy_bias != 0 or self.source_only

    def refuse_training(self, training: bool) -> None:
        """A head trained under knobs would learn to undo them."""
        if self.turned and training:
            raise ValueError(
                f"training or labels under {self}: knobs are for inference. Leave them out; where the head has "
                "them, set head.knobs = Knobs()."
            )

    def refuse_embeddings(self, ids: Tensor | None) -> None:
        """Words that are not known cannot be chosen from."""
        if self.source_only and ids is None:
            raise unknown_words("a context of embeddings")


def unknown_words(where: str) -> ValueError:
    return ValueError(f"source_only: {where} has no words to choose from. Give ids, not embeddings alone.")
