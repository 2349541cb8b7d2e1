"""What the heads cost beside the plain model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unbottle.report.html import table

MEASURES = {"forward": "reading {length} words", "decode": "one more word after {context}"}


def cost_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds, and ratios to the plain model."""
    header = ["", "head", "ms", "time", "peak MB", "memory"]
    has_memory = any(row["memory"] for row in rows)
    lines = []
    for row in rows:
        memory = row["memory"] or {}
        line = [
            MEASURES[row["measure"]].format(**row),
            row["method"],
            f"{1000 * row['wall']['median']:.1f}",
            f"{row['wall']['ratio']:.2f}x",
            f"{memory['peak_mb']:.0f}" if memory else "",
            f"{memory['ratio']:.2f}x" if memory else "",
        ]
        lines.append(line if has_memory else line[:4])
    return table(header if has_memory else header[:4], lines)
