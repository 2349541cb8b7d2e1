"""Rows as a picture: ratios as bars, scales as lines. Needs matplotlib: pip install 'unbottle[bench]'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unbottle.bench.case import PLAIN
from unbottle.bench.row import Row


def plot(rows: Sequence[Row], path: Path) -> None:
    """One panel for each shape, or each measure along a scale."""
    panels = [list(members) for _, members in groupby(rows, key=_panel)]
    figure = Figure(figsize=(8, 4 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, members in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        (bars if members[0].point.axis is None else lines)(axes, members)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _panel(row: Row) -> tuple[str, ...]:
    point = row.point
    return (point.shape.name,) if point.axis is None else (point.shape.model_type, point.axis, point.measure)


def bars(axes: Any, rows: Sequence[Row]) -> None:
    """CPU time beside the plain model, measure by measure."""
    titles = list(dict.fromkeys(row.point.title for row in rows))
    names = list(dict.fromkeys(row.variant.name for row in rows if row.variant.method != PLAIN))
    width = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        found = [row for row in rows if row.variant.name == name]
        places = [titles.index(row.point.title) + (i - (len(names) - 1) / 2) * width for row in found]
        drawn = axes.bar(places, [row.cpu_ratio for row in found], width, label=name)
        axes.bar_label(drawn, fmt="%.2f", fontsize=7)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(range(len(titles)), titles)
    axes.set_ylabel("CPU time / plain model")
    axes.set_title(rows[0].point.shape.name)
    if names:
        axes.legend(fontsize=8)


def lines(axes: Any, rows: Sequence[Row]) -> None:
    """CPU time per predicted word as one size grows."""
    point = rows[0].point
    series: dict[str, list[Row]] = {}
    for row in rows:
        series.setdefault(_line(row), []).append(row)
    for name, members in series.items():
        values = [row.point.value for row in members]
        axes.plot(values, [1000 * row.cpu / row.words for row in members], marker="o", label=name)
    ticks = sorted({row.point.value for row in rows if row.point.value is not None})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(point.axis)
    axes.set_ylabel("CPU ms per word")
    axes.set_title(f"{point.shape.name}, {point.measure}")
    axes.legend(fontsize=8)


def _line(row: Row) -> str:
    """What the line of a row is called. Along k the method changes at every point, and its line is called r:k."""
    name = row.variant.name
    return name if row.point.axis != "k" else re.sub(rf"(?<=[:,]){row.point.value}(?=[+ ]|$)", "k", name)
