"""A Markdown table that reads well as it is."""

from __future__ import annotations

from collections.abc import Sequence


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
