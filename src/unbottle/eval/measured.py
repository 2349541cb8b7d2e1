"""What a metric finds on a set of examples, in a form that can be drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
