"""Experiment: rows of a table of the paper, what is measured for each, and what the paper says.

Record: the results of one experiment, in a folder: results.json, table.md and plot.png.

Is one output layer better than another? By the same held-out windows, drawn again and again.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from unbottle.bench.run import machine
from unbottle.eval.bootstrap import Drawing, Ratio, difference_interval
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.workspace import AnyLab, Lab, same_settings
from unbottle.files import file_lock, read_json, write_text
from unbottle.tables import Estimate, Table


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


class Record:
    """Rows that are there already are kept; each new one is on disk before the next begins.

    Several processes may add rows to the same folder: each reads what the others wrote before it writes.
    """

    def __init__(self, folder: Path, experiment: Experiment, settings: dict[str, Any]) -> None:
        self.folder, self.experiment, self.settings = folder, experiment, json.loads(json.dumps(settings))
        self.rows: list[Row] = []
        self.together: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._read()

    def has(self, method: str, seed: int, size: str) -> bool:
        return any((row.method, row.seed, row.size) == (method, seed, size) for row in self.rows)

    def read_again(self) -> Record:
        """With what other processes wrote."""
        with file_lock(self.folder / ".lock"):
            self._read()
        return self

    def add(self, row: Row) -> None:
        with file_lock(self.folder / ".lock"):
            self._read()
            if self.has(row.method, row.seed, row.size):
                return  # another process was faster
            self.rows.append(row)
            self.together = {}  # of fewer rows
            self._write()

    def finish(self, together: dict[str, Any]) -> None:
        """What was measured of all rows together; and the files once more."""
        with file_lock(self.folder / ".lock"):
            self._read()
            self.together = together or self.together
            self._write()

    def _write(self) -> None:
        data = {
            "experiment": self.experiment.name,
            "settings": self.settings,
            "machine": machine(),
            "rows": [asdict(row) for row in self.rows],
            "together": self.together,
        }
        write_text(self.folder / "results.json", shallow(json.dumps(data, indent=1)) + "\n")
        write_text(self.folder / "table.md", self.document() + "\n")
        if self.experiment.plot is not None and importlib.util.find_spec("matplotlib"):
            self.experiment.plot(self.sorted(), self.folder / "plot.png")

    def sorted(self) -> list[Row]:
        order = {method: number for number, method in enumerate(self.experiment.methods)}
        return sorted(self.rows, key=lambda row: (row.size, order.get(row.method, len(order)), row.seed))

    def document(self) -> str:
        """A table for each size of the backbone, the paper's numbers to the right."""
        found, parts = machine(), [f"## {self.experiment.title}"]
        for size in dict.fromkeys(row.size for row in self.rows):
            parts += [f"### {size}", *(table.markdown() for table in self._tables(size))]
        seeds = sorted({row.seed for row in self.rows})
        error = "; ± is the standard error of the mean" if len(seeds) > 1 else ""
        parts += [self.experiment.note] if self.experiment.note else []
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        parts.append(
            f"`{self.experiment.command(self.settings)}`, text {self.settings['data']}, "
            f"seeds {', '.join(map(str, seeds))}{error}. {found['processor']}, {found['cores']} cores; {versions}."
        )
        return "\n\n".join(parts)

    def _tables(self, size: str) -> list[Table]:
        """One for each part of the columns; a number of the paper stands in the part that has its like."""
        parts = dict.fromkeys(column.part for column in self.experiment.columns)
        return [self._table(size, part) for part in parts]

    def _table(self, size: str, part: str) -> Table:
        beside = self.settings["preset"].get("beside", {}).get(size, size)  # the paper's name for what is like it
        reported = self.experiment.reported(beside, self.settings["data"])
        columns = [column for column in self.experiment.columns if column.part == part]
        elsewhere = {column.title for column in self.experiment.columns if column.part != part}
        names = self.experiment.paper_columns if reported else ()
        chosen = [place for place, name in enumerate(names) if name not in elsewhere]
        header = ["Method", *(column.title for column in columns), *(f"paper: {names[place]}" for place in chosen)]
        lines = []
        for method in self.experiment.methods:
            rows = [row for row in self.sorted() if (row.method, row.size) == (method, size)]
            if rows:
                mine = [self._cell(rows, column) for column in columns]
                numbers = reported.get(method)
                his = ["" if numbers is None else f"{numbers[place]:g}" for place in chosen]
                lines.append([Variant.parse(method).title, *mine, *his])
        return Table(header, lines)

    def _cell(self, rows: Sequence[Row], column: Column) -> str:
        together = self.together.get(rows[0].method, {})
        found = [row.found.get(column.key) for row in rows] + [together.get(column.key)]
        values = [value for value in found if value is not None]  # None: no token was of that kind
        if not values:
            return ""
        if isinstance(values[0], str):
            return str(values[0])
        estimate = Estimate.of(values)
        if estimate.error == 0:
            estimate = Estimate(estimate.mean, None, estimate.count)
        return estimate.show(column.digits)

    def _read(self) -> None:
        if not (self.folder / "results.json").exists():
            return
        data = read_json(self.folder / "results.json")
        if not same_settings(data["settings"], self.settings):
            raise ValueError(
                f"{self.folder}: holds results of another preset or text. Choose another --output, or remove it."
            )
        self.settings = data["settings"]
        rows = [Row(**row) for row in data["rows"]]
        self.rows = [*{(row.method, row.seed, row.size): row for row in rows}.values()]  # none counts twice
        self.together = data["together"]


def shallow(text: str) -> str:
    """JSON whose lists of numbers, and lists of those, take one line each: there is a pair for every window."""
    for inner in (r"[^\[\]{}\"]", r"(?:[^\[\]{}\"]|\[[^\[\]{}\"]*\])"):
        text = re.sub(rf"\[\s+({inner}*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    return text


Windows = Sequence[Sequence[float]]  # [sum of losses, tokens] of each window


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Losses by seed, of both. `low` and `high` are where the mean of first - second would be on other text like this.

    Differences of losses: exp(difference) - 1 is by how much a perplexity is above the other.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    low: float | None
    high: float | None

    @property
    def wins(self) -> int:
        """Seeds with which the first is better."""
        return sum(one < other for one, other in zip(self.first, self.second, strict=True))

    @property
    def difference(self) -> float:
        return fmean(self.first) - fmean(self.second)

    @property
    def interval(self) -> str:
        """In percent of perplexity; nothing, where there were too few windows."""
        return "" if self.low is None or self.high is None else f"{percent(self.low)} to {percent(self.high)}"


def paired(first: Sequence[Windows], second: Sequence[Windows]) -> Paired:
    """From the losses of each held-out window, for each seed; the same windows and seeds for both."""
    losses = [tuple(_ratio(windows).value or 0.0 for windows in seeds) for seeds in (first, second)]
    interval = difference_interval(_ratio(_mean(first)), _ratio(_mean(second)), Drawing())
    low, high = (None, None) if interval is None else interval
    return Paired(first=losses[0], second=losses[1], low=low, high=high)


def percent(difference: float) -> str:
    """A difference of losses, as one of perplexities."""
    return f"{exp(difference) - 1:+.1%}"


def _ratio(windows: Windows) -> Ratio:
    return Ratio(parts=tuple(loss for loss, _ in windows), wholes=tuple(float(count) for _, count in windows))


def _mean(seeds: Sequence[Windows]) -> Windows:
    """Each window's loss, averaged over seeds."""
    return [(fmean(loss for loss, _ in window), window[0][1]) for window in zip(*seeds, strict=True)]
