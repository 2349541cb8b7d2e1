"""TrainingRecord: what a model card says about the training of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

TRAINED = {"all": "all weights", "head": "the output layer; the model below it is frozen", "lora": "LoRA and the head"}


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """`data` is what the training was given, a data set of the Hub or a path. A path does not go into a card: what it
    holds is named by its `fingerprint`. `valid_losses` are those before and after the training."""

    data: str | None
    fingerprint: str | None
    train: str  # all, head or lora
    steps: int
    tokens: int
    settings: dict[str, object] = field(default_factory=dict)
    valid_losses: tuple[float, float] | None = None

    @property
    def perplexities(self) -> tuple[float, float] | None:
        if self.valid_losses is None:
            return None
        before, after = (math.exp(min(loss, 700.0)) for loss in self.valid_losses)
        return before, after
