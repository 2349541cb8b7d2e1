"""Is one output layer better than another? By the same held-out windows, drawn again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean

from unbottle.eval.measured import Ratio
from unbottle.eval.resampling import Drawing, difference_interval

Windows = Sequence[Sequence[float]]  # [sum of losses, tokens] of each window


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Losses by seed, of both. `low` and `high` are where the mean of first - second would be on other text like this.

    Differences of losses: exp(difference) - 1 is by how much a perplexity is above the other.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    low: float | None
    high: float | None

    @property
    def wins(self) -> int:
        """Seeds with which the first is better."""
        return sum(one < other for one, other in zip(self.first, self.second, strict=True))

    @property
    def difference(self) -> float:
        return fmean(self.first) - fmean(self.second)

    @property
    def interval(self) -> str:
        """In percent of perplexity; nothing, where there were too few windows."""
        return "" if self.low is None or self.high is None else f"{percent(self.low)} to {percent(self.high)}"


def paired(first: Sequence[Windows], second: Sequence[Windows]) -> Paired:
    """From the losses of each held-out window, for each seed; the same windows and seeds for both."""
    losses = [tuple(_ratio(windows).value or 0.0 for windows in seeds) for seeds in (first, second)]
    interval = difference_interval(_ratio(_mean(first)), _ratio(_mean(second)), Drawing())
    low, high = (None, None) if interval is None else interval
    return Paired(first=losses[0], second=losses[1], low=low, high=high)


def percent(difference: float) -> str:
    """A difference of losses, as one of perplexities."""
    return f"{exp(difference) - 1:+.1%}"


def _ratio(windows: Windows) -> Ratio:
    return Ratio(parts=tuple(loss for loss, _ in windows), wholes=tuple(float(count) for _, count in windows))


def _mean(seeds: Sequence[Windows]) -> Windows:
    """Each window's loss, averaged over seeds."""
    return [(fmean(loss for loss, _ in window), window[0][1]) for window in zip(*seeds, strict=True)]
