"""A table of text in columns.

A Markdown table that reads well as it is.

Table: Markdown, aligned so that it reads well as it is.

Estimate: a mean over seeds and how far to trust it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NUMBER = re.compile(r"-?\d[\d.]*(e[+-]\d+)?%?|inf")


def aligned(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, two spaces apart, numbers to the right."""
    columns = []
    for name, *cells in zip(title, *rows, strict=True):
        width = max(map(len, (name, *cells)))
        number = all(NUMBER.fullmatch(cell) for cell in cells)
        columns.append([f"{cell:>{width}}" if number else f"{cell:<{width}}" for cell in (name, *cells)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def markdown(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others, which are numbers, to the right."""
    lines = [title, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(title))]
    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    padded = [
        [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in (title, rule, *rows)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def number(value: float | None, digits: int) -> str:
    """Nothing where there is no number."""
    return "" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True)
class Table:
    """The first column is text and stands left, all others are numbers and stand right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [list(self.header), *(list(row) for row in self.rows)]
        widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(self.header))]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines.insert(1, rule)
        return "\n".join("| " + " | ".join(_padded(line, widths)) + " |" for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]


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
