"""Run the rows of an experiment: resumable, and shared between processes.

Rows that are in the results already are skipped. Several processes may run the same experiment: each takes rows that no
other process works on. A training that diverges is a row that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unbottle.experiments.presets import Json
from unbottle.experiments.results import BROKEN, Experiment, ResultRow, Results, RowKey
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.workspace import Workspace
from unbottle.files import file_lock, try_lock
from unbottle.progress import Progress, portion
from unbottle.train.divergence import DivergenceError

FINISH = "finish"  # in Experiment.seconds: what is computed of all rows
REPORTED = 0.98  # of a step: something comes after the last report of it


def run_experiment(experiment: Experiment, workspace: Workspace, folder: Path, rows: Sequence[RowKey]) -> Results:
    """Run the rows that are missing in the results in `folder`, and return all results."""
    results = Results(folder, experiment, workspace.settings)
    remaining = [row for row in rows if row not in results]
    finishes = experiment.finish is not None and bool(remaining or (results.rows and not results.together))
    finish_weight = experiment.seconds.get(FINISH, 1.0) if finishes else 0.0
    progress = workspace.progress
    steps = Steps(progress, sum(_weight(experiment, row) for row in remaining) + finish_weight)
    try:
        while remaining:
            row = _run_free_row(experiment, workspace, results, remaining, steps)
            if row is None:  # other processes work on all that is left
                with file_lock(_lock(remaining[0], workspace)):
                    pass
            else:
                remaining.remove(row)
        together: Json = {}
        if experiment.finish is not None and results.rows and not results.together:
            with steps.step("all rows together", finish_weight) as workspace.progress:
                together = experiment.finish(workspace, results.sorted())
    finally:
        workspace.progress = progress
    results.finish(together)
    steps.finish()
    return results


def _run_free_row(
    experiment: Experiment, workspace: Workspace, results: Results, rows: Sequence[RowKey], steps: Steps
) -> RowKey | None:
    """Run the first row that no other process works on; None if there is none."""
    for row in rows:
        with try_lock(_lock(row, workspace)) as acquired:
            if acquired:
                title = f"{experiment.name}, {row.size}, {RowSpec.parse(row.method).title}, seed {row.seed}"
                with steps.step(title, _weight(experiment, row)) as workspace.progress:
                    if row not in results.refresh():  # another process may have finished it
                        results.add(ResultRow(*row, _measure(experiment, workspace, row)))
                return row
    return None


def _weight(experiment: Experiment, row: RowKey) -> float:
    return experiment.seconds.get(row.method, 1.0)


def _measure(experiment: Experiment, workspace: Workspace, row: RowKey) -> Json:
    try:
        return experiment.measure(workspace, row)
    except DivergenceError as error:
        return {BROKEN: str(error).split(", on rows")[0]}


def _lock(row: RowKey, workspace: Workspace) -> Path:
    """The lock file that belongs to the process that runs a row."""
    return workspace.folder / ".rows" / f"{row.size}-{RowSpec.parse(row.method).folder_name}-{row.seed}.lock"


class Steps:
    """One progress for several steps, each of a certain weight."""

    def __init__(self, progress: Progress, total: float) -> None:
        self.progress, self.total, self.done = progress, total, 0.0

    @contextmanager
    def step(self, title: str, weight: float) -> Iterator[Progress]:
        """The progress of a step, which is complete when the block ends."""
        self.progress(self.done, self.total, title)

        def named(done: float, total: float, text: str) -> None:
            self.progress(done, total, f"{title}: {text}")

        yield portion(named, self.done, REPORTED * weight, self.total)
        self.done += weight

    def finish(self) -> None:
        if self.total:
            self.progress(self.total, self.total, "done")
