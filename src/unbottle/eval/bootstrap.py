"""What a metric finds on a set of examples, in a form that can be drawn again.

How sure a number is, and whether two runs differ: by drawing examples again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A sum over examples divided by another: sum of parts / sum of wholes.

    A mean over examples has wholes of 1. An example with a whole of 0 has no value of its own.
    """

    parts: tuple[float, ...]
    wholes: tuple[float, ...]

    @classmethod
    def mean(cls, values: Sequence[float | None]) -> Ratio:
        """The mean of the values that are there."""
        return cls(
            parts=tuple(0.0 if value is None else float(value) for value in values),
            wholes=tuple(0.0 if value is None else 1.0 for value in values),
        )

    @property
    def value(self) -> float | None:
        return sum(self.parts) / sum(self.wholes) if self.counted else None

    @property
    def values(self) -> list[float | None]:
        """Of each example."""
        return [part / whole if whole else None for part, whole in zip(self.parts, self.wholes, strict=True)]

    @property
    def counted(self) -> int:
        """Examples that have a value."""
        return sum(whole > 0 for whole in self.wholes)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A number of all texts together, which no single text has.

    `sums` has a row for each example, and `of` makes numbers of sums of rows, so that examples can be drawn again.
    Where `sums` is None they can not, and `why` says why.
    """

    value: float
    counted: int
    sums: np.ndarray | None = None
    of: Callable[[np.ndarray], np.ndarray] | None = None
    why: str = ""

    @property
    def values(self) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number of one run, and whose code it is; `note` says what a reader should know about it."""

    found: Ratio | Corpus
    implementation: str
    note: str = ""


LEVEL = 95  # percent
BLOCK = 4_000_000  # numbers drawn at once
FEWEST = 20  # rounds; with fewer a percentile is none
INTERVAL = "percentile bootstrap over examples; weights of CIDEr and NIST stay those of the whole set"
TEST = "approximate randomisation, two-sided: the two texts of each example change places with probability 1/2"
TOLERANCE = 1e-9  # of sums in another order


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How often, and from which random numbers."""

    rounds: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < FEWEST:
            raise ValueError(f"rounds {self.rounds}: expected {FEWEST} or more, as a percentile needs them.")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed}: expected 0 or more.")


def interval(found: Ratio | Corpus, drawing: Drawing) -> tuple[float, float] | None:
    """The middle 95 % of what the number is on examples drawn with replacement. None below two examples."""
    if found.counted < 2 or not drawable(found):
        return None
    return _middle(_drawn(found, drawing))


def difference_interval(first: Ratio | Corpus, second: Ratio | Corpus, drawing: Drawing) -> tuple[float, float] | None:
    """The same of first - second, on the same draws for both."""
    if min(first.counted, second.counted) < 2 or not (drawable(first) and drawable(second)):
        return None
    return _middle(_drawn(first, drawing) - _drawn(second, drawing))


def p_value(first: Ratio | Corpus, second: Ratio | Corpus, drawing: Drawing) -> float | None:
    """P(a difference as large as this one, either way), if it made no difference which run wrote which text.

    (1 + rounds with |difference| >= the one seen) / (1 + rounds); a round without a number counts against a difference.
    """
    if first.value is None or second.value is None or not (drawable(first) and drawable(second)):
        return None
    random = np.random.default_rng(drawing.seed)
    one, other = _rows(first), _rows(second)
    seen = abs(first.value - second.value)
    smaller = 0
    for size in _blocks(drawing.rounds, len(one)):
        moved = random.integers(2, size=(size, len(one))).astype(float) @ (other - one)
        found = np.abs(_numbers(first, one.sum(0) + moved) - _numbers(second, other.sum(0) - moved))
        smaller += int((found < seen - TOLERANCE * max(1.0, seen)).sum())
    return (1 + drawing.rounds - smaller) / (1 + drawing.rounds)


def drawable(found: Ratio | Corpus) -> bool:
    return isinstance(found, Ratio) or found.sums is not None


def _rows(found: Ratio | Corpus) -> np.ndarray:
    """What is added up over examples."""
    rows = np.array([found.parts, found.wholes]).T if isinstance(found, Ratio) else found.sums
    assert rows is not None
    return rows


def _numbers(found: Ratio | Corpus, sums: np.ndarray) -> np.ndarray:
    """The numbers of these sums; not a number where nothing was counted."""
    if isinstance(found, Corpus):
        assert found.of is not None
        return found.of(sums)
    numbers = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=numbers, where=sums[:, 1] > TOLERANCE)
    return numbers


def _drawn(found: Ratio | Corpus, drawing: Drawing) -> np.ndarray:
    random, rows = np.random.default_rng(drawing.seed), _rows(found)
    numbers = []
    for size in _blocks(drawing.rounds, len(rows)):
        places = random.integers(len(rows), size=(size, len(rows)))
        sums = np.stack([column[places].sum(1) for column in rows.T], axis=1)
        numbers.append(_numbers(found, sums))
    return np.concatenate(numbers)


def _middle(found: np.ndarray) -> tuple[float, float] | None:
    found = found[~np.isnan(found)]
    if len(found) < FEWEST:
        return None
    low, high = np.percentile(found, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def _blocks(rounds: int, number: int) -> Iterator[int]:
    most = max(1, BLOCK // max(number, 1))
    for done in range(0, rounds, most):
        yield min(most, rounds - done)
