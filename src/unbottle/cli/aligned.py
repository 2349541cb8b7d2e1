"""A table of text in columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER = re.compile(r"-?\d[\d.]*(e[+-]\d+)?%?|inf")


def aligned(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, two spaces apart, numbers to the right."""
    columns = []
    for name, *cells in zip(title, *rows, strict=True):
        width = max(map(len, (name, *cells)))
        number = all(NUMBER.fullmatch(cell) for cell in cells)
        columns.append([f"{cell:>{width}}" if number else f"{cell:<{width}}" for cell in (name, *cells)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))
