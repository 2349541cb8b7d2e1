"""Experiment: rows of a table of the paper, what is measured for each, and what the paper says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbottle.recipes.lab import Lab


@dataclass(frozen=True)
class Column:
    """A measured number (or text) and how to show it."""

    title: str
    key: str
    digits: int = 2


@dataclass(frozen=True)
class Row:
    """What was measured for one method, seed and size of the backbone."""

    method: str
    seed: int
    size: str
    found: dict[str, Any]


Measure = Callable[[Lab, str, int, str], dict[str, Any]]  # (lab, method, seed, size of the backbone) -> what was found
Plot = Callable[[Sequence[Row], Path], None]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    name: str
    title: str
    methods: tuple[str, ...]
    measure: Measure
    columns: tuple[Column, ...]
    paper_columns: tuple[str, ...] = ()
    paper: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)  # size -> method -> numbers
    all_sizes: bool = False  # else the first backbone only
    finish: Callable[[Lab, Sequence[Row]], dict[str, Any]] | None = None  # what is measured of all rows together
    plot: Plot | None = None
    note: str = ""
