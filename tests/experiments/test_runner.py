"""The progress bar is true for all rows of an experiment, and only for those that are left to run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from unbottle.experiments.results import Column, Experiment, ResultRow, Results
from unbottle.experiments.runner import FINISH, Steps, run_experiment
from unbottle.progress import portion

SETTINGS = {"data": "text", "preset": {"name": "cpu"}}


def experiment(log: list[str]) -> Experiment:
    def measure(workspace, row):
        log.append(row.method)
        for number in range(1, 5):
            workspace.progress(number, 4, f"{number} of 4")
        return {"loss": 1.0}

    return Experiment(
        name="table9",
        title="A table",
        methods=("softmax", "softmax+c", "softmax+p"),
        measure=measure,
        columns=(Column("Loss", "loss"),),
        finish=lambda workspace, rows: {row.method: {"rank": 1.0} for row in rows},
        seconds={"softmax": 10, "softmax+c": 1000, "softmax+p": 30, FINISH: 5},
    )


def run(log: list[str], folder: Path) -> list[tuple[float, float, str]]:
    seen: list[tuple[float, float, str]] = []
    table = experiment(log)
    workspace = SimpleNamespace(folder=folder, settings=SETTINGS, progress=lambda *args: seen.append(args))
    rows = table.rows(None, [0], sizes=["small"])  # type: ignore[arg-type]
    run_experiment(table, workspace, folder / "results", rows)  # type: ignore[arg-type]
    return seen


def test_rows_have_their_share_of_the_time(tmp_path: Path) -> None:
    log: list[str] = []
    Results(tmp_path / "results", experiment(log), SETTINGS).add(ResultRow("softmax+c", 0, "small", {"loss": 2.0}))
    seen = run(log, tmp_path)
    assert log == ["softmax", "softmax+p"], "without the row that is there"
    assert {total for _, total, _ in seen} == {45}
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[0] == (0.0, 45, "table9, small, Softmax, seed 0")
    assert (10.0, 45, "table9, small, S + P, seed 0") in seen
    assert seen[-1] == (45, 45, "done")
    assert all(done < 45 for done, _, _ in seen[:-1])
    assert any(text == "table9, small, S + P, seed 0: 2 of 4" for _, _, text in seen)


def test_nothing_to_run_reports_nothing(tmp_path: Path) -> None:
    run([], tmp_path)
    log: list[str] = []
    assert run(log, tmp_path) == []
    assert log == []


def test_a_row_is_stored_before_the_next_one_starts(tmp_path: Path) -> None:
    log: list[str] = []
    table = experiment(log)

    def interrupted(workspace, row):
        if log:
            raise KeyboardInterrupt
        return table.measure(workspace, row)

    workspace = SimpleNamespace(folder=tmp_path, settings=SETTINGS, progress=(progress := lambda *args: None))
    rows = table.rows(None, [0], sizes=["small"])  # type: ignore[arg-type]
    stopped = Experiment(**{**vars(table), "measure": interrupted})
    with pytest.raises(KeyboardInterrupt):
        run_experiment(stopped, workspace, tmp_path / "results", rows)  # type: ignore[arg-type]
    assert [row.method for row in Results(tmp_path / "results", table, SETTINGS).rows] == ["softmax"]
    assert workspace.progress is progress


def test_a_step_is_complete_when_its_block_ends() -> None:
    seen: list[tuple[float, float, str]] = []
    steps = Steps(lambda *args: seen.append(args), 4)
    with steps.step("a", 3) as progress:
        progress(1, 1, "all")
    assert seen == [(0.0, 4, "a"), (0.98 * 3, 4, "a: all")]
    assert steps.done == 3


def test_portion() -> None:
    seen: list[tuple[float, float, str]] = []
    report = portion(lambda *args: seen.append(args), 3, 2, 10)
    report(1, 2, "half")
    report(9, 2, "more than all")
    report(0, 0, "of nothing")
    assert seen == [(4.0, 10, "half"), (5.0, 10, "more than all"), (3.0, 10, "of nothing")]
