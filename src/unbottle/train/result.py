"""Result: what a training leaves behind, beside the model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Result:
    """`losses` are (step, mean since the one before); `valid_losses` are (step, mean over all tokens), 0 is before."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    valid_losses: tuple[tuple[int, float], ...]
    tokens: int
    seconds: float
    tokens_per_second: float
    folder: str  # where the trained model is

    def to_dict(self) -> dict[str, Any]:
        perplexities = [(step, math.exp(min(loss, 700.0))) for step, loss in self.valid_losses]
        return asdict(self) | {"valid_perplexities": perplexities}
