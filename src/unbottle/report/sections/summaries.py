"""Scores of summaries, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbottle.report.html import paragraph, table
from unbottle.report.page import Section


def sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval summaries`."""
    runs, comparison = result["runs"], result.get("comparison")
    measured = {
        name: [run["metrics"][name] for run in runs.values()]
        for name in next(iter(runs.values()))["metrics"]
        if any(run["metrics"][name]["value"] is not None for run in runs.values())
    }
    header = ["metric", *(part for name in runs for part in (name, "95 %"))]
    rows = [[name, *(part for score in scores for part in _cells(score))] for name, scores in measured.items()]
    if comparison is not None:
        header += ["difference", "p"]
        for row in rows:
            both = comparison["metrics"][row[0]]
            row += [_number(both["difference"]), _number(both["p"], 4)]
    counts = ", ".join(f"{name}: {run['examples']}" for name, run in runs.items())
    notes = [paragraph(f"Summaries: {counts}.", "quiet"), *(paragraph(note, "quiet") for note in result["notes"])]
    return [Section(title="Summaries", body=(table(header, rows), *notes))]


def _cells(score: Mapping[str, Any]) -> tuple[str, str]:
    low, high = score["low"], score["high"]
    return _number(score["value"]), "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"
