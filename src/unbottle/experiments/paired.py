"""Paired comparison: is one output layer better than another on the same held-out windows?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Self

from unbottle.eval.bootstrap import RatioStatistic, Resampling, difference_interval
from unbottle.experiments.presets import Json
from unbottle.experiments.results import BROKEN, ResultRow

WindowLosses = Sequence[Sequence[float]]  # [sum of losses, number of tokens] of each window


@dataclass(frozen=True, kw_only=True)
class PairedLosses:
    """The losses of two methods for each seed, and the 95 % bootstrap interval of the mean of first - second.

    The interval is over windows: how the mean would vary on other text like this. exp(difference) - 1 is the relative
    difference of perplexities.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    low: float | None  # None: too few windows
    high: float | None

    @classmethod
    def of(cls, first: Sequence[WindowLosses], second: Sequence[WindowLosses]) -> Self:
        """From the losses of each window, for each seed; both have the same windows and seeds."""
        losses = [tuple(_ratio(windows).value or 0.0 for windows in seeds) for seeds in (first, second)]
        interval = difference_interval(_ratio(_mean(first)), _ratio(_mean(second)), Resampling())
        low, high = (None, None) if interval is None else interval
        return cls(first=losses[0], second=losses[1], low=low, high=high)

    @property
    def wins(self) -> int:
        """Number of seeds with which the first is better."""
        return sum(one < other for one, other in zip(self.first, self.second, strict=True))

    @property
    def difference(self) -> float:
        return fmean(self.first) - fmean(self.second)

    @property
    def interval(self) -> str:
        """In percent of perplexity; empty if there were too few windows."""
        return "" if self.low is None or self.high is None else f"{percent(self.low)} to {percent(self.high)}"


def differences_to(baseline: str, rows: Sequence[ResultRow]) -> dict[str, Json]:
    """Each method compared with the baseline, on the windows and seeds that both have."""
    windows: dict[str, dict[int, WindowLosses]] = {}
    differences: dict[str, Json] = {}
    for row in rows:
        if row.is_broken:
            differences[row.method] = {"difference": BROKEN, "interval": row.metrics[BROKEN]}
        else:
            windows.setdefault(row.method, {})[row.seed] = row.metrics["windows"]
    if baseline not in windows:
        return differences
    num_broken = Counter(row.method for row in rows if row.is_broken)
    for method, seeds in windows.items():
        common = sorted(seeds.keys() & windows[baseline].keys())
        if method == baseline or not common:
            continue
        pair = PairedLosses.of([seeds[seed] for seed in common], [windows[baseline][seed] for seed in common])
        broken = f" and {num_broken[method]} broken" if method in num_broken else ""
        differences[method] = {
            "difference": percent(pair.difference),
            "interval": pair.interval,
            "wins": f"{pair.wins} of {len(common)}{broken}",
            "low": pair.low,
            "high": pair.high,
        }
    return differences


def percent(difference: float) -> str:
    """A difference of losses, as the relative difference of perplexities."""
    return f"{exp(difference) - 1:+.1%}"


def _ratio(windows: WindowLosses) -> RatioStatistic:
    return RatioStatistic(
        numerators=tuple(loss for loss, _ in windows), denominators=tuple(float(count) for _, count in windows)
    )


def _mean(seeds: Sequence[WindowLosses]) -> WindowLosses:
    """The loss of each window, averaged over seeds."""
    return [(fmean(loss for loss, _ in window), window[0][1]) for window in zip(*seeds, strict=True)]
