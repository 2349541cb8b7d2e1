"""Experiment: rows of a table of the paper, what is measured for each, and what the paper says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbottle.recipes.any_lab import AnyLab
from unbottle.recipes.lab import Lab


@dataclass(frozen=True)
class Column:
    """A measured number (or text) and how to show it."""

    title: str
    key: str
    digits: int = 2
    part: str = ""  # columns of different parts stand in tables of their own


@dataclass(frozen=True)
class Row:
    """What was measured for one method, seed and size of the backbone."""

    method: str
    seed: int
    size: str
    found: dict[str, Any]


Measure = Callable[[Any, str, int, str], dict[str, Any]]  # (lab, method, seed, size of the backbone) -> what was found
Plot = Callable[[Sequence[Row], Path], None]
Paper = Mapping[str, Mapping[str, tuple[float, ...]]]  # size -> method -> numbers


def first_size(preset: Any) -> tuple[str, ...]:
    return every_size(preset)[:1]


def every_size(preset: Any) -> tuple[str, ...]:
    return tuple(preset.backbones)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    name: str
    title: str
    methods: tuple[str, ...]
    measure: Measure
    columns: tuple[Column, ...]
    paper_columns: tuple[str, ...] = ()
    paper: Paper = field(default_factory=dict)
    paper_by_data: Mapping[str, Paper] | None = None  # instead, where the paper has several data sets
    lab: type[AnyLab] = Lab  # where its models are trained, with which presets
    sizes: Callable[[Any], Sequence[str]] = first_size  # of a preset: the backbones that take part
    finish: Callable[[Any, Sequence[Row]], dict[str, Any]] | None = None  # what is measured of all rows together
    plot: Plot | None = None
    note: str = ""
    told: str = ""  # the command that runs it, if it is none of the paper's

    def command(self, settings: Mapping[str, Any]) -> str:
        """What runs it again."""
        return self.told or f"unbottle reproduce {self.name} --preset {settings['preset']['name']}"

    def reported(self, size: str, data: str) -> Mapping[str, tuple[float, ...]]:
        """What the paper says about this size, or about its first one; nothing about data that it does not have."""
        paper = self.paper if self.paper_by_data is None else self.paper_by_data.get(data, {})
        return paper.get(size) or next(iter(paper.values()), {})
