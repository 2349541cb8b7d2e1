"""Reproduce: run the rows of an experiment, one after the other; what is done is not done again.

cpu_medians: how long things take, in turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unbottle.bench.timing import SystemClock, Times, Work, take_turns
from unbottle.experiments.results import Experiment, Record, Row
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.workspace import AnyLab
from unbottle.files import file_lock, try_lock
from unbottle.progress import Progress


class Todo(NamedTuple):
    """A row that is missing."""

    seed: int
    size: str
    method: str

    def lock(self, lab: AnyLab) -> Path:
        """A file that belongs to who makes this row."""
        return lab.folder / ".rows" / f"{self.size}-{Variant.parse(self.method).folder}-{self.seed}.lock"


def reproduce(
    experiment: Experiment,
    lab: AnyLab,
    output: Path,
    *,
    seeds: Sequence[int] = (0,),
    methods: Sequence[str] | None = None,
    sizes: Sequence[str] | None = None,
) -> Record:
    """The record of all rows; `methods` and `sizes`, of the backbone, choose some of them.

    Several processes may do this at once: each takes rows that nobody works on.
    """
    record = Record(output / f"{experiment.name}{lab.suffix(lab.data)}", experiment, lab.settings)
    sizes = experiment.sizes(lab.preset) if sizes is None else sizes
    chosen = [method for method in experiment.methods if methods is None or method in methods]
    todo = [Todo(seed, size, method) for seed in seeds for size in sizes for method in chosen]
    todo = [each for each in todo if not record.has(each.method, each.seed, each.size)]
    outer, total = lab.report, len(todo)
    while todo:
        for number, each in enumerate(todo):
            with try_lock(each.lock(lab)) as mine:
                if mine:
                    lab.report = _shown(outer, total - len(todo), total, f"{experiment.name}, seed {each.seed}")
                    if not record.read_again().has(each.method, each.seed, each.size):  # by another process
                        found = experiment.measure(lab, each.method, each.seed, each.size)
                        record.add(Row(each.method, each.seed, each.size, found))
                    del todo[number]
                    break
        else:
            with file_lock(todo[0].lock(lab)):  # all that is left is being done by others
                pass
    lab.report = outer
    together: dict[str, Any] = {}
    if experiment.finish is not None and record.rows and not record.together:
        outer(len(todo), len(todo) or 1, "measuring time")
        together = experiment.finish(lab, record.sorted())
    record.finish(together)
    return record


def _shown(outer: Progress, done_before: int, rows: int, title: str) -> Progress:
    """A report on one of several rows."""

    def report(done: float, total: float, text: str) -> None:
        outer(done_before + min(0.95, done / max(total, 1)), rows, f"{title}, {text}")

    return report


ROUNDS = 15


def cpu_medians(runs: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds that all threads computed, the median of rounds in which each has its turn."""
    found: Times = {}
    works = {name: Work(lambda: None, run) for name, run in runs.items()}
    take_turns(works, found, repeats=ROUNDS, clock=SystemClock(), order=random.Random(0))
    return {name: sorted(time.cpu for time in each)[len(each) // 2] for name, each in found.items()}
