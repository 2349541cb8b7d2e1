"""Reproduce: run the rows of an experiment, one after the other; what is done is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbottle.recipes.any_lab import AnyLab
from unbottle.recipes.experiment import Experiment, Row
from unbottle.recipes.record import Record


def reproduce(
    experiment: Experiment,
    lab: AnyLab,
    output: Path,
    *,
    seeds: Sequence[int] = (0,),
    methods: Sequence[str] | None = None,
    sizes: Sequence[str] | None = None,
) -> Record:
    """The record of all rows; `methods` and `sizes`, of the backbone, choose some of them."""
    settings = {"preset": lab.preset.to_dict(), "data": Path(lab.data).name}
    record = Record(output / f"{experiment.name}{lab.suffix(lab.data)}", experiment, settings)
    sizes = experiment.sizes(lab.preset) if sizes is None else sizes
    chosen = [method for method in experiment.methods if methods is None or method in methods]
    todo = [(seed, size, method) for seed in seeds for size in sizes for method in chosen]
    todo = [each for each in todo if not record.has(each[2], each[0], each[1])]
    outer = lab.report
    for number, (seed, size, method) in enumerate(todo):

        def inner(done: float, total: float, text: str, number: int = number, seed: int = seed) -> None:
            outer(number + min(0.95, done / max(total, 1)), len(todo), f"{experiment.name}, seed {seed}, {text}")

        lab.report = inner
        record.add(Row(method, seed, size, experiment.measure(lab, method, seed, size)))
    lab.report = outer
    together: dict[str, Any] = {}
    if experiment.finish is not None and record.rows and not record.together:
        outer(len(todo), len(todo) or 1, "measuring time")
        together = experiment.finish(lab, record.sorted())
    record.finish(together)
    return record
