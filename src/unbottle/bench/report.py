"""Measurements as Markdown tables, as a plot (needs matplotlib) and as JSON."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from itertools import cycle, groupby
from pathlib import Path
from typing import Any

from unbottle.bench.cases import PLAIN, BenchSettings
from unbottle.bench.run import Measurement
from unbottle.files import Json, read_json, write_json, write_text
from unbottle.tables import Table, number

MANY = 8  # methods: more than colours can tell apart
PAPER = "#946000"
Column = tuple[str, Callable[[Measurement], str]]

TIMES = {
    "cpu": "CPU: seconds that the process computed, all threads together; the more reliable one on a busy machine.",
    "cuda": "GPU: seconds between an event before and an event after the step.",
}
MEMORY = {
    "cpu": "the peak of a process of its own that does it once, Python and weights included",
    "cuda": "the peak of torch's allocator in a process of its own, weights included",
}


def note(settings: BenchSettings) -> str:
    baseline = "the plain model" if settings.baseline == PLAIN else f"`{settings.baseline}`"
    return (
        f"{settings.execution}, {settings.repeats} rounds. {TIMES[settings.device]} Wall: seconds that passed. "
        "Both are medians of rounds in which the variants took turns; a ratio is the median divided by that of "
        f"{baseline}. FLOP ratio: of floating-point operations in matrix products, counted. "
        f"Memory: {MEMORY[settings.device]}."
    )


def verdict(rows: Sequence[Measurement]) -> str:
    """How many goals were reached, and which were not."""
    goals = [wanted for row in rows for wanted in (row.goal.time, row.memory_ratio and row.goal.memory) if wanted]
    missed = [f"{row.point.shape.name} {row.point.title} {row.variant.name}" for row in rows if row.misses_time]
    missed += [
        f"memory of {row.point.shape.name} {row.point.title} {row.variant.name}" for row in rows if row.misses_memory
    ]
    if not goals:
        return ""
    return f"Goals (ratios of wall time and of memory): {len(goals) - len(missed)} of {len(goals)} reached." + (
        f" Missed: {'; '.join(missed)}." if missed else ""
    )


def document(rows: Sequence[Measurement], settings: BenchSettings, machine: Json, *, interrupted: bool = False) -> str:
    """All tables, and how and where they were measured, in Markdown."""
    if not rows:
        return "Nothing was measured."
    parts = []
    for _, members in groupby(rows, key=lambda row: (row.point.shape.name, row.point.axis)):
        group = list(members)
        parts += [heading(group[0]), table(group).markdown()]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parts += [text for text in (verdict(rows), note(settings)) if text]
    parts.append(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {versions}.")
    if interrupted:
        parts.append("Interrupted: this is what was measured so far.")
    return "\n\n".join(parts)


def heading(row: Measurement) -> str:
    point, shape = row.point, row.point.shape
    sizes = {
        "V": f"vocabulary {shape.vocabulary}",
        "B": f"batch {point.batch}",
        "T": f"length {point.length}",
        "N": f"source {point.source_length}" if point.source_length else "",
    }
    fixed = ", ".join(text for axis, text in sizes.items() if text and axis != point.axis)
    return f"### {shape.name}" + (f", {point.axis} grows" if point.axis else "") + f" ({fixed})"


def columns(rows: Sequence[Measurement]) -> list[Column]:
    """The columns that are not empty for these rows."""
    chosen: list[Column] = [("measure", lambda row: row.point.title)]
    if rows[0].point.axis:
        chosen.append((rows[0].point.axis, lambda row: str(row.point.value)))
    unit = unit_of(rows)
    chosen += [("method", lambda row: row.variant.name), (f"{unit} ms", lambda row: milliseconds(row.cpu))]
    if rows[0].point.axis:
        chosen.append((f"{unit} ms / word", lambda row: milliseconds(row.cpu / row.words)))
    chosen += [
        (f"{unit} ratio", lambda row: number(row.cpu_ratio)),
        ("wall ms", lambda row: milliseconds(row.wall)),
        ("wall ratio", lambda row: number(row.wall_ratio)),
    ]
    if any(row.flop_ratio for row in rows):
        chosen.append(("FLOP ratio", lambda row: number(row.flop_ratio)))
    if any(row.goal.time for row in rows):
        chosen.append(("goal", lambda row: number(row.goal.time) + " missed" * row.misses_time))
    if any(row.paper_ratio for row in rows):
        chosen.append(("paper's ratio", lambda row: number(row.paper_ratio)))
    if any(row.peak_mb for row in rows):
        chosen += [
            ("peak MB", lambda row: "" if row.peak_mb is None else f"{row.peak_mb:.0f}"),
            ("memory ratio", lambda row: number(row.memory_ratio)),
        ]
    if any(row.goal.memory and row.memory_ratio for row in rows):
        chosen.append(("goal", lambda row: number(row.goal.memory) + " missed" * row.misses_memory))
    return chosen


def unit_of(rows: Sequence[Measurement]) -> str:
    return "CPU" if rows[0].device == "cpu" else "GPU"


def table(rows: Sequence[Measurement]) -> Table:
    chosen = columns(rows)
    return Table([name for name, _ in chosen], [[cell(row) for _, cell in chosen] for row in rows])


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def plot(rows: Sequence[Measurement], path: Path) -> None:
    """Save a picture: a panel for each shape, or for each measure along a scale."""
    panels = [list(members) for _, members in groupby(rows, key=_panel)]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, members in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        draw = lines if members[0].point.axis else ratios if len({row.variant for row in members}) > MANY else bars
        draw(axes, members)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _panel(row: Measurement) -> tuple[str, ...]:
    point = row.point
    return (point.shape.name,) if point.axis is None else (point.shape.model_type, point.axis, point.measure)


def bars(axes: Any, rows: Sequence[Measurement]) -> None:
    """Computing time beside the baseline, measure by measure."""
    titles = list(dict.fromkeys(row.point.title for row in rows))
    baseline = rows[0].variant.name
    names = list(dict.fromkeys(row.variant.name for row in rows if row.variant.name != baseline))
    width = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        bars_of = [row for row in rows if row.variant.name == name]
        places = [titles.index(row.point.title) + (i - (len(names) - 1) / 2) * width for row in bars_of]
        drawn = axes.bar(places, [row.cpu_ratio for row in bars_of], width, label=name)
        axes.bar_label(drawn, fmt="%.2f", fontsize=7)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(range(len(titles)), titles)
    axes.set_ylabel(ratio_label(rows))
    axes.set_title(rows[0].point.shape.name)
    if names:
        axes.legend(fontsize=8)


def ratio_label(rows: Sequence[Measurement]) -> str:
    baseline = rows[0].variant.name
    return f"{unit_of(rows)} time / {'plain model' if baseline == PLAIN else baseline}"


def ratios(axes: Any, rows: Sequence[Measurement]) -> None:
    """Computing time of many methods beside the baseline: a dot each, hollow for the paper's."""
    names = list(dict.fromkeys(row.variant.name for row in rows))
    for title, marker in zip(dict.fromkeys(row.point.title for row in rows), cycle("osv^P*"), strict=False):
        dots = [row for row in rows if row.point.title == title]
        axes.plot([row.cpu_ratio for row in dots], [names.index(row.variant.name) for row in dots], marker, label=title)
    if paper := [row for row in rows if row.paper_ratio]:
        places = [row.paper_ratio for row in paper], [names.index(row.variant.name) for row in paper]
        axes.plot(*places, "D", markerfacecolor="none", color=PAPER, label="paper")
    axes.axvline(1, color="black", linewidth=1, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#eceff2", zorder=0)
    axes.set_xlabel(ratio_label(rows))
    axes.set_title(rows[0].point.shape.name)
    axes.legend(fontsize=8)


def lines(axes: Any, rows: Sequence[Measurement]) -> None:
    """Computing time per predicted word as one size grows."""
    point = rows[0].point
    series: dict[str, list[Measurement]] = {}
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
    axes.set_ylabel(f"{unit_of(rows)} ms per word")
    axes.set_title(f"{point.shape.name}, {point.measure}")
    axes.legend(fontsize=8)


def _line(row: Measurement) -> str:
    """The line that a row belongs to. Along k the method changes at every point; its line is called r:k."""
    name = row.variant.name
    return name if row.point.axis != "k" else re.sub(rf"(?<=[:,]){row.point.value}(?=[+ ]|$)", "k", name)


def save(
    folder: Path, rows: Sequence[Measurement], settings: BenchSettings, machine: Json, *, interrupted: bool = False
) -> list[Path]:
    """Write bench.md, bench.json and, if matplotlib is installed, bench.png; returns their paths."""
    save_rows(folder, rows, settings, machine, interrupted=interrupted)
    write_text(folder / "bench.md", document(rows, settings, machine, interrupted=interrupted) + "\n")
    written = [folder / "bench.md", folder / "bench.json"]
    if rows and importlib.util.find_spec("matplotlib") is not None:
        written.append(folder / "bench.png")
        plot(rows, written[-1])
    return written


def save_rows(
    folder: Path, rows: Sequence[Measurement], settings: BenchSettings, machine: Json, *, interrupted: bool
) -> None:
    """Write bench.json."""
    data = {
        "settings": settings.to_dict(),
        "machine": machine,
        "interrupted": interrupted,
        "rows": [row.to_dict() for row in rows],
    }
    write_json(folder / "bench.json", data)


def interrupted_rows(folder: Path, settings: BenchSettings, machine: Json) -> list[Json]:
    """The rows that an interrupted run with the same settings on the same machine saved in this folder."""
    file = folder / "bench.json"
    data: Json = read_json(file) if file.exists() else {"interrupted": False}
    same = data["interrupted"] and data["settings"] == json.loads(json.dumps(settings.to_dict()))
    rows: list[Json] = data["rows"] if same and data["machine"] == machine else []
    return rows
