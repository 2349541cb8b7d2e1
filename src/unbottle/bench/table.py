"""Rows as Markdown tables, one for each shape or scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from unbottle.bench.row import Row
from unbottle.bench.settings import Settings

Column = tuple[str, Callable[[Row], str]]

NOTE = (
    "CPU: seconds that the process computed, all threads together; the more reliable one on a busy machine. "
    "Wall: seconds that passed. Both are medians of rounds in which the variants took turns; a ratio is the median "
    "divided by that of the plain model. Memory: the peak of a process of its own that does it once, "
    "Python and weights included."
)


def document(rows: Sequence[Row], settings: Settings, machine: dict[str, Any], *, interrupted: bool = False) -> str:
    """All tables, how they were measured, and where."""
    if not rows:
        return "Nothing was measured."
    parts = []
    for _, members in groupby(rows, key=lambda row: (row.point.shape.name, row.point.axis)):
        found = list(members)
        parts += [heading(found[0]), table(found, columns(found))]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parts.append(f"{settings.dtype}, {settings.threads} threads, {settings.repeats} rounds. {NOTE}")
    parts.append(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {versions}.")
    if interrupted:
        parts.append("Interrupted: this is what was measured so far.")
    return "\n\n".join(parts)


def heading(row: Row) -> str:
    point, shape = row.point, row.point.shape
    sizes = {
        "V": f"vocabulary {shape.vocabulary}",
        "B": f"batch {point.batch}",
        "T": f"length {point.length}",
        "N": f"source {point.source_length}" if point.source_length else "",
    }
    fixed = ", ".join(text for axis, text in sizes.items() if text and axis != point.axis)
    return f"### {shape.name}" + (f", {point.axis} grows" if point.axis else "") + f" ({fixed})"


def columns(rows: Sequence[Row]) -> list[Column]:
    """Columns that have something to say about these rows."""
    found: list[Column] = [("measure", lambda row: row.point.title)]
    if rows[0].point.axis:
        found.append((rows[0].point.axis, lambda row: str(row.point.value)))
    found += [("method", lambda row: row.variant.name), ("CPU ms", lambda row: milliseconds(row.cpu))]
    if rows[0].point.axis:
        found.append(("CPU ms / word", lambda row: milliseconds(row.cpu / row.words)))
    found += [
        ("CPU ratio", lambda row: ratio(row.cpu_ratio)),
        ("wall ms", lambda row: milliseconds(row.wall)),
        ("wall ratio", lambda row: ratio(row.wall_ratio)),
    ]
    if any(row.limit.time for row in rows):
        found.append(("at most", lambda row: ratio(row.limit.time)))
    if any(row.peak_mb for row in rows):
        found += [
            ("peak MB", lambda row: "" if row.peak_mb is None else f"{row.peak_mb:.0f}"),
            ("memory ratio", lambda row: ratio(row.memory_ratio)),
        ]
    if any(row.limit.memory for row in rows):
        found.append(("at most", lambda row: ratio(row.limit.memory)))
    return found


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Markdown, aligned so that it reads well as it is."""
    lines = [[name for name, _ in columns], *([text(row) for _, text in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    left = [name in ("measure", "method") for name, _ in columns]
    rule = ["-" * width if is_left else "-" * (width - 1) + ":" for width, is_left in zip(widths, left, strict=True)]
    lines.insert(1, rule)
    return "\n".join("| " + " | ".join(_padded(line, widths, left)) + " |" for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> list[str]:
    return [c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(line, widths, left, strict=True)]


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
