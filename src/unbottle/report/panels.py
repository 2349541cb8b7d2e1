"""Figures of several panels: metrics of methods beside the paper's, and probabilities of the options of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from unbottle.report.palette import SERIES
from unbottle.tables import Estimate

GREY = "#b8bec6"
MARKERS = ("D", "s", "^")  # of the paper's points, one for each of its columns
WIDEST = 4  # panels beside each other


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One metric: an estimate for each method, and the paper's numbers by the name of their series."""

    title: str
    values: Mapping[str, Estimate]
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def panels(contents: Sequence[Panel], path: Path, *, title: str, label: str, zero: bool = False) -> None:
    """A panel for each metric with a dot per method: ours filled, the paper's hollow. `zero` marks 0, the baseline."""
    names = list(dict.fromkeys(name for panel in contents for name in panel.values))
    columns = min(WIDEST, len(contents))
    rows = -(-len(contents) // columns)
    size = (2.6 + 2.9 * columns, 1.3 + rows * (0.7 + 0.27 * len(names)))
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", sharey=True, squeeze=False)
    heights = {name: -place for place, name in enumerate(names)}
    for axes, panel in zip(grid.flat, contents, strict=False):
        if zero:
            axes.axvline(0, color=GREY, linewidth=1, zorder=0)
        for number, (series, points) in enumerate(panel.paper.items()):
            shown = [name for name in names if name in points]
            axes.plot(
                [points[name] for name in shown],
                [heights[name] for name in shown],
                MARKERS[number % len(MARKERS)],
                markerfacecolor="none",
                color=SERIES[1].light,
                label=series,
            )
        ours = [name for name in names if name in panel.values]
        axes.errorbar(
            [panel.values[name].mean for name in ours],
            [heights[name] for name in ours],
            xerr=[panel.values[name].error or 0 for name in ours],
            fmt="o",
            color=SERIES[2].light,
            capsize=3,
            label="here",
        )
        axes.set_title(panel.title, fontsize=11)
        axes.set_yticks([*heights.values()], names)
        axes.margins(y=0.5 / len(names))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="#eceff2", zorder=0)
    for axes in grid.flat[len(contents) :]:
        axes.set_visible(False)
    handles = {
        text: handle for axes in grid.flat for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False, title=label
    )
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=150)
    plt.close(figure)


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
    rows = -(-len(contents) // columns)
    most = max(len(panel.options) for panel in contents)
    size = (5.6 * columns, 1.2 + rows * (0.8 + 0.14 * most * len(models)))
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    thickness = 0.8 / len(models)
    for axes, panel in zip(grid.flat, contents, strict=False):
        for number, name in enumerate(models):
            offset = 0.4 - thickness * (number + 0.5)
            heights = [offset - place for place in range(len(panel.options))]
            colour = SERIES[number % len(SERIES)].light
            axes.barh(heights, panel.probabilities[name], thickness, color=colour, label=name)
        axes.set_yticks([-place for place in range(len(panel.options))], panel.options)
        axes.set_title(panel.title, fontsize=10, wrap=True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid.flat[len(contents) :]:
        axes.set_visible(False)
    handles, texts = grid.flat[0].get_legend_handles_labels()
    label = "probability of the option as the next word"
    figure.legend(handles, texts, loc="outside lower center", ncols=min(3, len(models)), frameon=False, title=label)
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=150)
    plt.close(figure)
