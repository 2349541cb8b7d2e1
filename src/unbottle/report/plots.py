"""Plots of results: loss against size, metrics in panels, and options of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from unbottle.report.palette import SERIES
from unbottle.tables import Estimate

GREY = "#b8bec6"
MARKERS = ("D", "s", "^")  # of the paper's points, one for each of its columns
WIDEST = 4  # panels beside each other
TICKS = 5  # of an axis, at most: more would collide

Curve = Sequence[tuple[float, Estimate]]
LINES = ("o", "s", "D", "^", "v", "P")  # markers: lines that cross differ in more than their colour


def curves(lines: Mapping[str, Curve], paper: Mapping[str, Curve], path: Path, *, title: str, x: str, y: str) -> None:
    """One line for each method through its sizes, on a logarithmic axis; what the paper has is in a panel beside it."""
    contents = {"here": lines, "paper": paper} if paper else {title: lines}
    figure, grid = plt.subplots(1, len(contents), figsize=(7 if not paper else 10, 4.5), layout="constrained")
    if paper:
        figure.suptitle(title, fontsize=11)
    looks = {
        name: {"color": SERIES[number % len(SERIES)].light, "marker": LINES[number % len(LINES)]}
        for number, name in enumerate(lines)
    }
    panels_of_curves = [grid] if len(contents) == 1 else grid
    for axes, (heading, curves_of) in zip(panels_of_curves, contents.items(), strict=True):
        for name, points in curves_of.items():
            sizes, means = [size for size, _ in points], [estimate.mean for _, estimate in points]
            errors = [estimate.error or 0 for _, estimate in points]
            axes.errorbar(sizes, means, yerr=errors, capsize=3, label=name, **looks[name])
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(heading, fontsize=11)
        axes.set_xlabel(x)
        axes.spines[["top", "right"]].set_visible(False)
    panels_of_curves[0].set_ylabel(y)
    panels_of_curves[-1].legend(frameon=False)
    _save(figure, path)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One metric: an estimate for each method, and the paper's numbers by the name of their series."""

    title: str
    values: Mapping[str, Estimate]
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def panels(
    contents: Sequence[Panel], path: Path, *, title: str, label: str, zero: bool = False, log: bool = False
) -> None:
    """A panel for each metric with a dot per method: ours filled, the paper's hollow. `zero` marks 0, the baseline."""
    names = list(dict.fromkeys(name for panel in contents for name in panel.values))
    heights = {name: -place for place, name in enumerate(names)}
    columns = min(WIDEST, len(contents))
    width, height = 2.6 + 2.9 * columns, 0.7 + 0.27 * len(names)
    figure, grid = _grid(len(contents), columns, width, height, sharey=True)
    for axes, panel in zip(grid.flat, contents, strict=False):
        if zero:
            axes.axvline(0, color=GREY, linewidth=1, zorder=0)
        for number, (series, points) in enumerate(panel.paper.items()):
            shown = [name for name in names if name in points]
            places = [points[name] for name in shown], [heights[name] for name in shown]
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(*places, marker, markerfacecolor="none", color=SERIES[1].light, label=series)
        _estimates(axes, panel.values, heights, color=SERIES[2].light, label="here")
        axes.set_title(panel.title, fontsize=11)
        axes.margins(y=0.5 / len(names))
        if log:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=TICKS))
    _legend(figure, grid, label)
    figure.suptitle(title, fontsize=12)
    _save(figure, path)


@dataclass(frozen=True, kw_only=True)
class OptionPanel:
    """The options of a list in the order in which a prompt names them, and each model's probability of each."""

    title: str
    options: Sequence[str]
    probabilities: Mapping[str, Sequence[float]]  # by model


def option_panels(contents: Sequence[OptionPanel], path: Path, *, title: str) -> None:
    """A panel for each prompt and order: bars of the options as they are listed, one series for each model."""
    models = list(dict.fromkeys(name for panel in contents for name in panel.probabilities))
    columns = min(2, len(contents))
    most = max(len(panel.options) for panel in contents)
    figure, grid = _grid(len(contents), columns, 5.6 * columns, 0.8 + 0.14 * most * len(models))
    thickness = 0.8 / len(models)
    for axes, panel in zip(grid.flat, contents, strict=False):
        for number, name in enumerate(models):
            offset = 0.4 - thickness * (number + 0.5)
            heights = [offset - place for place in range(len(panel.options))]
            colour = SERIES[number % len(SERIES)].light
            axes.barh(heights, panel.probabilities[name], thickness, color=colour, label=name)
        axes.set_yticks([-place for place in range(len(panel.options))], panel.options)
        axes.set_title(panel.title, fontsize=10, wrap=True)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=TICKS))
        axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, grid, "probability of the option as the next word", columns=3)
    figure.suptitle(title, fontsize=12)
    _save(figure, path)


def _estimates(axes: Any, values: Mapping[str, Estimate], heights: Mapping[str, int], **look: object) -> None:
    """A dot for each value at the height of its name, with its standard error."""
    means, errors = [value.mean for value in values.values()], [value.error or 0 for value in values.values()]
    axes.errorbar(means, [heights[name] for name in values], xerr=errors, fmt="o", capsize=3, **look)
    axes.set_yticks([*heights.values()], [*heights])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#eceff2", zorder=0)


def _grid(count: int, columns: int, width: float, height: float, **options: Any) -> tuple[plt.Figure, Any]:
    """A figure of this width with `count` panels of this height; those that remain are hidden."""
    rows = -(-count // columns)
    size = (width, 1.3 + rows * height)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, grid


def _legend(figure: plt.Figure, grid: Any, title: str, *, columns: int | None = None) -> None:
    """One legend below all panels."""
    handles = {
        text: handle for axes in grid.flat for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    number = min(columns or len(handles), len(handles))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=number, frameon=False, title=title
    )


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=150)
    plt.close(figure)
