"""Plots of results: methods beside a reference, and loss against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from unbottle.report.palette import PARTITIONS, SERIES
from unbottle.tables import Estimate

GREY = "#b8bec6"
PAPER = " (paper)"  # the end of the names of lines that the paper prints


def dots(values: Mapping[str, Estimate], path: Path, *, label: str, mark: str | None = None) -> None:
    """One dot for each method, with its standard error; a line marks the reference."""
    names = list(values)
    figure, axes = plt.subplots(figsize=(7.5, 0.32 * len(names) + 1.2), layout="constrained")
    heights = range(len(names))[::-1]
    errors = [values[name].error or 0 for name in names]
    colour = PARTITIONS["PE"].light
    axes.errorbar([values[name].mean for name in names], heights, xerr=errors, fmt="o", color=colour, capsize=3)
    if mark is not None and mark in values:
        axes.axvline(values[mark].mean, color=GREY, linewidth=1, zorder=0)
    axes.set_yticks(list(heights), names)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#eceff2", zorder=0)
    _save(figure, path)


def curves(lines: Mapping[str, Sequence[tuple[float, Estimate]]], path: Path, *, x: str, y: str) -> None:
    """One line for each method through its sizes, on a logarithmic axis; "NAME (paper)" is dashed, as NAME else."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    own = [name for name in lines if not name.endswith(PAPER)]
    colours = {name: SERIES[number % len(SERIES)].light for number, name in enumerate(own)}
    for name, points in lines.items():
        errors = [estimate.error or 0 for _, estimate in points]
        xs, ys = [size for size, _ in points], [estimate.mean for _, estimate in points]
        paper = name.endswith(PAPER)
        colour = colours.get(name.removesuffix(PAPER), GREY)
        axes.errorbar(
            xs,
            ys,
            yerr=errors,
            marker="o",
            capsize=3,
            label=name,
            color=colour,
            linestyle="--" if paper else "-",
            markerfacecolor="none" if paper else colour,
        )
    axes.set_xscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=150)
    plt.close(figure)
