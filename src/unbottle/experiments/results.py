"""Experiments and their results: which rows a table has, what is measured for each, and the files that hold it.

Results of an experiment are a folder with results.json, table.md and, for some experiments, plot.png.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from unbottle.bench.run import machine
from unbottle.experiments.paper import ANY, PaperNumbers
from unbottle.experiments.presets import Json, Preset, same_settings
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.workspace import LanguageWorkspace, Workspace
from unbottle.files import file_lock, read_json, write_text
from unbottle.tables import Estimate, Table

BROKEN = "broken"  # the only metric of a row whose training diverged: why
MODELS = "models"  # beside the metrics of a row: metric -> the model that computed it, for those that load one
TAGGER = "tagger"  # likewise: what found the proper nouns
INTERVALS = "intervals"  # likewise: metric -> the ends of its interval


@dataclass(frozen=True)
class Column:
    """A metric and how to show it."""

    title: str
    key: str
    digits: int = 2
    part: str = ""  # columns of different parts are in separate tables


class RowKey(NamedTuple):
    """Which row of an experiment: a method with its options (see RowSpec), a seed, and the name of a backbone."""

    method: str
    seed: int
    size: str


@dataclass(frozen=True)
class ResultRow:
    """The metrics of one row. A row whose training diverged has none but BROKEN."""

    method: str
    seed: int
    size: str
    metrics: Json

    @property
    def key(self) -> RowKey:
        return RowKey(self.method, self.seed, self.size)

    @property
    def is_broken(self) -> bool:
        return BROKEN in self.metrics

    @property
    def models(self) -> Mapping[str, str]:
        """What the metrics of the row depend on beside its own model: metric -> model, and the tagger of names."""
        tagger = {TAGGER: self.metrics[TAGGER]} if self.metrics.get(TAGGER) else {}
        return {**self.metrics.get(MODELS, {}), **tagger}

    def with_metrics_of(self, earlier: ResultRow) -> ResultRow:
        """This row, and the metrics by models that only an earlier measurement of it used."""
        metrics: Json = {**self.metrics}
        for name, model in earlier.metrics.get(MODELS, {}).items():
            if name not in self.models:
                metrics[MODELS] = {**metrics.get(MODELS, {}), name: model}
                metrics |= {name: earlier.metrics[name]} if name in earlier.metrics else {}
                if name in earlier.metrics.get(INTERVALS, {}):
                    metrics[INTERVALS] = {**metrics.get(INTERVALS, {}), name: earlier.metrics[INTERVALS][name]}
        return replace(self, metrics=metrics)

    @classmethod
    def from_json(cls, row: Json) -> ResultRow:
        return cls(row["method"], row["seed"], row["size"], row["found"])

    def to_json(self) -> Json:
        return {**self.key._asdict(), "found": self.metrics}


Measure = Callable[[Any, RowKey], Json]  # (workspace, row) -> metrics
Finish = Callable[[Any, Sequence[ResultRow]], Json]  # (workspace, rows) -> {method: metrics}
Plot = Callable[[Sequence[ResultRow], Path, PaperNumbers], None]  # the paper's of the same backbones


def of_backbone(size: str, method: str) -> str:
    """The key of what depends on all rows of a backbone."""
    return f"{size}, {method}"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table: its rows, what is measured for each of them, its columns, and the paper's numbers beside them.

    `measure` trains a row in the workspace and returns its metrics. `finish` computes what depends on all rows, as time
    ratios or differences to a baseline. `seconds` is roughly how long each method takes, and FINISH: only proportions
    count, for the progress bar.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    measure: Measure
    columns: tuple[Column, ...]
    paper_columns: tuple[str, ...] = ()  # empty: all that the paper has
    paper: Mapping[str, PaperNumbers] = field(default_factory=dict)  # by data set; ANY: whatever the data are
    column_data: Mapping[str, str] = field(default_factory=dict)  # data sets that columns of the paper are of
    workspace: type[Workspace] = LanguageWorkspace
    # the backbones of a preset that take part unless others are named
    sizes: Callable[[Any], Sequence[str]] = lambda preset: [*preset.backbones][:1]
    finish: Finish | None = None
    plot: Plot | None = None
    models: Mapping[str, str] = field(default_factory=dict)  # as of a row: rows that have others are measured again
    tagged: bool = False  # whether columns depend on the tagger of names
    note: str = ""
    command: str = ""  # the command that runs it; empty: unbottle reproduce
    seconds: Mapping[str, float] = field(default_factory=dict)

    def rows(
        self,
        preset: Preset,
        seeds: Sequence[int],
        *,
        methods: Sequence[str] | None = None,
        sizes: Sequence[str] | None = None,
    ) -> list[RowKey]:
        """All rows, in the order in which they are run; `methods` and `sizes` select some of them."""
        selected = [method for method in self.methods if methods is None or method in methods]
        sizes = self.sizes(preset) if sizes is None else sizes
        return [RowKey(method, seed, size) for seed in seeds for size in sizes for method in selected]

    def select_sizes(self, preset: Preset, names: Sequence[str]) -> list[str]:
        """The backbones of the preset that are named, or else those of the experiment."""
        for name in names:
            if name not in preset.backbones:
                raise ValueError(
                    f"size {name!r}: not a backbone of preset {preset.name}. Known: {', '.join(preset.backbones)}."
                )
        return [size for size in preset.backbones if size in names] if names else [*self.sizes(preset)]

    def select_methods(self, preset: Preset, names: Sequence[str]) -> list[str]:
        """The rows that are named, or all that the vocabulary of the preset is large enough for, in their order."""
        selected = {str(RowSpec.parse(name)) for name in names}
        rows = {str(RowSpec.parse(method)): method for method in self.methods}
        if unknown := selected - set(rows):
            raise ValueError(f"method {unknown.pop()!r}: not a row of {self.name}. Known: {', '.join(rows)}.")
        return [
            method
            for name, method in rows.items()
            if (name in selected if selected else RowSpec.parse(name).fits(preset.vocabulary))
        ]

    def paper_numbers(self, size: str, data: str) -> Mapping[str, Mapping[str, float]]:
        """The paper's numbers for a backbone, or else for its first one; none for data that the paper does not use."""
        paper = self.paper.get(data) or self.paper.get(ANY, {})
        return paper.get(size) or next(iter(paper.values()), {})


class Results:
    """The rows of an experiment, in a folder. Each row is on disk before the next one starts; plots come at the end.

    Several processes may add rows to the same folder: each reads what the others wrote before it writes.
    """

    def __init__(self, folder: Path, experiment: Experiment, settings: Json) -> None:
        self.folder, self.experiment, self.settings = folder, experiment, json.loads(json.dumps(settings))
        self.rows: list[ResultRow] = []
        self.together: Json = {}  # method -> metrics that depend on all rows
        folder.mkdir(parents=True, exist_ok=True)
        self._read()

    def __contains__(self, key: RowKey) -> bool:
        """Whether a row is done: it has the metrics of all models that are asked for, or its training diverged."""
        wanted = self.experiment.models.items()
        return any(row.key == key and (row.is_broken or wanted <= row.models.items()) for row in self.rows)

    def refresh(self) -> Results:
        """Read what other processes have written meanwhile."""
        with file_lock(self.folder / ".lock"):
            self._read()
        return self

    def add(self, row: ResultRow) -> None:
        with file_lock(self.folder / ".lock"):
            self._read()
            if row.key in self:
                return  # another process was faster
            if earlier := [other for other in self.rows if other.key == row.key]:
                row = row.with_metrics_of(earlier[0])
                self.rows = [row if other.key == row.key else other for other in self.rows]
            else:
                self.rows.append(row)
            self.together = {}  # of fewer rows
            self._write()

    def finish(self, together: Json) -> None:
        """Store what depends on all rows, and write all files once more."""
        with file_lock(self.folder / ".lock"):
            self._read()
            self.together = together or self.together
            self._write()
            self._draw()

    def sorted(self) -> list[ResultRow]:
        """Rows in the order of the table."""
        order = {method: number for number, method in enumerate(self.experiment.methods)}
        return sorted(self.rows, key=lambda row: (row.size, order.get(row.method, len(order)), row.seed))

    def markdown(self) -> str:
        """A table for each backbone, with the paper's numbers on the right."""
        parts = [f"## {self.experiment.title}"]
        for size in dict.fromkeys(row.size for row in self.rows):
            parts.append(f"### {size}")
            parts += [
                self._table(size, part).markdown() for part in dict.fromkeys(c.part for c in self.experiment.columns)
            ]
        seeds = sorted({row.seed for row in self.rows})
        error = "; ± is the standard error of the mean" if len(seeds) > 1 else ""
        parts += [self.experiment.note] if self.experiment.note else []
        titles = {column.key: column.title for column in self.experiment.columns}
        titles |= {TAGGER: "Names"} if self.experiment.tagged else {}
        models = {(titles[name], model) for row in self.rows for name, model in row.models.items() if name in titles}
        parts += [" ".join(f"{title} by {model}." for title, model in sorted(models))] if models else []
        hardware, settings = machine(), self.settings
        versions = ", ".join(f"{name} {version}" for name, version in hardware["versions"].items())
        command = self.experiment.command or (
            f"unbottle reproduce {self.experiment.name} --preset {settings['preset']['name']}"
        )
        command += f" --seeds {len(seeds)}" if len(seeds) > 1 and "--seeds" not in command else ""
        parts.append(
            f"`{command}`, text {settings['data']}, seeds {', '.join(map(str, seeds))}{error}. "
            f"{hardware['processor']}, {hardware['cores']} cores; {versions}."
        )
        return "\n\n".join(parts)

    def _table(self, size: str, part: str) -> Table:
        """One part of the columns; a column of the paper is in the part that has its counterpart."""
        paper = self._paper(size)
        columns = [column for column in self.experiment.columns if column.part == part]
        elsewhere = {column.title for column in self.experiment.columns if column.part != part}
        names = self.experiment.paper_columns or tuple(next(iter(paper.values()), {}))
        of_data, data = self.experiment.column_data, self.settings["data"]
        if data in of_data.values():
            elsewhere |= {name for name, other in of_data.items() if other != data}
        shown = [name for name in names if paper and name not in elsewhere]
        header = ["Method", *(column.title for column in columns), *(f"paper: {name}" for name in shown)]
        lines = []
        for method in self.experiment.methods:
            rows = [row for row in self.sorted() if (row.method, row.size) == (method, size)]
            if rows:
                paper_cells = [f"{paper[method][name]:g}" if method in paper else "" for name in shown]
                cells = [self._cell(rows, column) for column in columns]
                if all(row.is_broken for row in rows) and not any(cells):
                    cells[0] = BROKEN
                lines.append([RowSpec.parse(method).title, *cells, *paper_cells])
        return Table(header, lines)

    def _cell(self, rows: Sequence[ResultRow], column: Column) -> str:
        first = rows[0]
        together = self.together.get(of_backbone(first.size, first.method)) or self.together.get(first.method, {})
        metrics = [row.metrics.get(column.key) for row in rows] + [together.get(column.key)]
        values = [value for value in metrics if value is not None]  # None: no token was of that kind
        if not values or len({row.models.get(column.key) for row in rows if column.key in row.metrics}) > 1:
            return ""  # values by different models have no mean
        if isinstance(values[0], str):
            return values[0]
        estimate = Estimate.of(values)
        if estimate.error == 0:
            estimate = Estimate(estimate.mean, None, estimate.count)
        return estimate.show(column.digits)

    def _write(self) -> None:
        data = {
            "experiment": self.experiment.name,
            "settings": self.settings,
            "machine": machine(),
            "rows": [row.to_json() for row in self.rows],
            "together": self.together,
        }
        write_text(self.folder / "results.json", compact_lists(json.dumps(data, indent=1)) + "\n")
        write_text(self.folder / "table.md", self.markdown() + "\n")

    def _draw(self) -> None:
        rows = [row for row in self.sorted() if not row.is_broken]
        if self.experiment.plot is not None and rows and importlib.util.find_spec("matplotlib"):
            self.experiment.plot(rows, self.folder / "plot.png", self.paper_numbers())

    def paper_numbers(self) -> PaperNumbers:
        """The paper's numbers beside the backbones of these rows."""
        return {size: self._paper(size) for size in dict.fromkeys(row.size for row in self.rows)}

    def _paper(self, size: str) -> Mapping[str, Mapping[str, float]]:
        backbone = self.settings["preset"].get("beside", {}).get(size, size)
        return self.experiment.paper_numbers(backbone, self.settings["data"])

    def _read(self) -> None:
        if not (self.folder / "results.json").exists():
            return
        data = read_json(self.folder / "results.json")
        if not same_settings(data["settings"], self.settings):
            raise ValueError(
                f"{self.folder}: holds results of another preset or text. Choose another --output, or remove it."
            )
        self.settings = data["settings"]
        rows = [ResultRow.from_json(row) for row in data["rows"]]
        self.rows = [*{row.key: row for row in rows}.values()]  # a row that is there twice counts once
        self.together = data["together"]


def compact_lists(text: str) -> str:
    """JSON whose lists of numbers, and lists of such lists, are on one line: rows hold a pair for every window."""
    for inner in (r"[^\[\]{}\"]", r"(?:[^\[\]{}\"]|\[[^\[\]{}\"]*\])"):
        text = re.sub(rf"\[\s+({inner}*?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    return text
