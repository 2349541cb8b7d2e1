"""Tables as aligned text, Markdown and HTML (drawn by templates/macros.html of the report), and their cells."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

NUMBER = re.compile(r"[-+]?(\d|inf\b|nan\b)")


@dataclass(frozen=True)
class Table:
    """Rows of cells below a header; `best` are the cells (row, column) that HTML emphasizes.

    Columns in which every cell starts with a number, or is empty, are right-aligned. The first column never is.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Collection[tuple[int, int]] = ()

    @staticmethod
    def from_markdown(lines: Sequence[str]) -> Table:
        """The inverse of `markdown`: a header, a rule, rows."""
        header, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
        return Table(header, rows)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column is right-aligned."""
        return [
            column > 0 and all(NUMBER.match(row[column]) or not row[column] for row in self.rows)
            for column in range(len(self.header))
        ]

    def text(self) -> str:
        """Columns of equal width, two spaces apart."""
        return "\n".join("  ".join(line).rstrip() for line in self._padded([self.header, *self.rows]))

    def markdown(self, *, padded: bool = True) -> str:
        """A Markdown table; padded, it is readable as plain text too, which long cells do not allow."""
        rule = ["--:" if numeric and padded else "---" for numeric in self.numeric]
        lines = [self.header, rule, *self.rows]
        if padded:
            lines = self._padded(lines)
            lines[1] = [cell.replace(" ", "-") for cell in lines[1]]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _padded(self, lines: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return [
            [
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(line, widths, self.numeric, strict=True)
            ]
            for line in lines
        ]


def number(value: float | None, digits: int = 2) -> str:
    """A cell with a number, empty if there is none."""
    return "" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its standard error, which is unknown for a single value."""

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
