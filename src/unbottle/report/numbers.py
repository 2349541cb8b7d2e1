"""Estimate: a mean over seeds and how far to trust it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """Mean and standard error; of a single value the error is not known."""

    mean: float
    error: float | None
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> Estimate:
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return Estimate(statistics.fmean(values), error, len(values))

    def show(self, digits: int = 2) -> str:
        tail = "" if self.error is None else f" ± {self.error:.{digits}f}"
        return f"{self.mean:.{digits}f}{tail}"
