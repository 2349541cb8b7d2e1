"""Objective: what training minimises at each position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unbottle.head.distribution import IGNORED, Distribution


@dataclass(frozen=True, kw_only=True)
class Objective:
    """loss = (1 - s) (-log P(label)) + s (mean over the vocabulary of -log P) + z (log Z)^2

    s is `label_smoothing`, z is `z_loss`, both 0 unless set. Where several softmaxes are mixed, (log Z)^2 is their
    mean. A two-stage method adds the loss of its first stage.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing {self.label_smoothing!r}: expected a number from 0 to below 1.")
        if not (math.isfinite(self.z_loss) and self.z_loss >= 0):
            raise ValueError(f"z_loss {self.z_loss!r}: expected a finite number, 0 or larger.")

    def losses(self, distribution: Distribution, labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The loss of each position, 0 where the label is -100."""
        losses = distribution.nll(labels)
        if self.label_smoothing:
            uniform = -distribution.mean_log_prob().where(labels != IGNORED, 0)
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * uniform
        if self.z_loss:
            squares = torch.stack([logits.logsumexp().square() for logits in distribution.logits]).mean(0)
            losses = losses + self.z_loss * squares.where(labels != IGNORED, 0)
        if distribution.first_stage is not None:
            losses = losses + self.losses(distribution.first_stage, labels)
        return losses
