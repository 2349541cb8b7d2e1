"""Bootstrap intervals and randomisation tests: how certain a metric is, and whether two runs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 95  # percent
BLOCK = 4_000_000  # numbers drawn at once
FEWEST = 20  # rounds; fewer give no percentile
INTERVAL = "percentile bootstrap over examples; weights of CIDEr and NIST stay those of the whole set"
TEST = "approximate randomisation, two-sided: the two texts of each example change places with probability 1/2"
TOLERANCE = 1e-9  # for sums in another order


@dataclass(frozen=True, kw_only=True)
class RatioStatistic:
    """A sum over examples divided by another one: sum of numerators / sum of denominators.

    A mean over examples has denominators of 1. An example with a denominator of 0 has no value of its own.
    """

    numerators: tuple[float, ...]
    denominators: tuple[float, ...]

    @classmethod
    def mean(cls, values: Sequence[float | None]) -> RatioStatistic:
        """The mean of the values that are not None."""
        return cls(
            numerators=tuple(0.0 if value is None else float(value) for value in values),
            denominators=tuple(0.0 if value is None else 1.0 for value in values),
        )

    @property
    def value(self) -> float | None:
        return sum(self.numerators) / sum(self.denominators) if self.counted else None

    @property
    def values(self) -> list[float | None]:
        """The value of each example."""
        pairs = zip(self.numerators, self.denominators, strict=True)
        return [above / below if below else None for above, below in pairs]

    @property
    def counted(self) -> int:
        """The number of examples that have a value."""
        return sum(below > 0 for below in self.denominators)

    @property
    def rows(self) -> np.ndarray:
        """The terms that are summed over examples."""
        return np.array([self.numerators, self.denominators]).T

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """The statistic of each row of sums; NaN where nothing was counted."""
        numbers = np.full(len(sums), np.nan)
        np.divide(sums[:, 0], sums[:, 1], out=numbers, where=sums[:, 1] > TOLERANCE)
        return numbers


@dataclass(frozen=True, kw_only=True)
class CorpusStatistic:
    """A number of all texts together, which single texts do not have.

    `rows` has a row for each example, and `of_sums` computes the statistic from sums of rows, so that examples can be
    resampled. Where `rows` is None they cannot be, and `reason` says why.
    """

    value: float
    counted: int
    rows: np.ndarray | None = None
    of_sums: Callable[[np.ndarray], np.ndarray] = np.asarray  # not called without rows
    reason: str = ""
    values: None = None  # of single examples


Statistic = RatioStatistic | CorpusStatistic


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """The number of rounds and the random seed."""

    rounds: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < FEWEST:
            raise ValueError(f"rounds {self.rounds}: expected {FEWEST} or more, as a percentile needs them.")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed}: expected 0 or more.")


def interval(statistic: Statistic, resampling: Resampling) -> tuple[float, float] | None:
    """The middle 95 % of the statistic on examples drawn with replacement. None below two examples."""
    if statistic.counted < 2 or statistic.rows is None:
        return None
    return _middle(_resampled(statistic, statistic.rows, resampling))


def difference_interval(first: Statistic, second: Statistic, resampling: Resampling) -> tuple[float, float] | None:
    """The same of first - second, with the same draws for both."""
    if min(first.counted, second.counted) < 2 or first.rows is None or second.rows is None:
        return None
    return _middle(_resampled(first, first.rows, resampling) - _resampled(second, second.rows, resampling))


def p_value(first: Statistic, second: Statistic, resampling: Resampling) -> float | None:
    """P(a difference at least as large, in either direction) if it did not matter which run wrote which text.

    (1 + rounds with |difference| >= the observed one) / (1 + rounds); a round without a value counts as one of them.
    """
    one, other = first.rows, second.rows
    if first.value is None or second.value is None or one is None or other is None:
        return None
    random = np.random.default_rng(resampling.seed)
    observed = abs(first.value - second.value)
    smaller = 0
    for size in _blocks(resampling.rounds, len(one)):
        moved = random.integers(2, size=(size, len(one))).astype(float) @ (other - one)
        differences = np.abs(first.of_sums(one.sum(0) + moved) - second.of_sums(other.sum(0) - moved))
        smaller += int((differences < observed - TOLERANCE * max(1.0, observed)).sum())
    return (1 + resampling.rounds - smaller) / (1 + resampling.rounds)


def _resampled(statistic: Statistic, rows: np.ndarray, resampling: Resampling) -> np.ndarray:
    random = np.random.default_rng(resampling.seed)
    numbers = []
    for size in _blocks(resampling.rounds, len(rows)):
        indices = random.integers(len(rows), size=(size, len(rows)))
        sums = np.stack([column[indices].sum(1) for column in rows.T], axis=1)
        numbers.append(statistic.of_sums(sums))
    return np.concatenate(numbers)


def _middle(values: np.ndarray) -> tuple[float, float] | None:
    values = values[~np.isnan(values)]
    if len(values) < FEWEST:
        return None
    low, high = np.percentile(values, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def _blocks(rounds: int, examples: int) -> Iterator[int]:
    most = max(1, BLOCK // max(examples, 1))
    for done in range(0, rounds, most):
        yield min(most, rounds - done)
