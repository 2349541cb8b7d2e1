"""A whole run on tiny models: rows, files, interruption."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_shapes import METHODS, TINY, TINY_SEQ2SEQ

from unbottle.bench import run as module
from unbottle.bench.cases import SHAPES, BenchSettings, Case, Goal, Scale
from unbottle.bench.report import document, interrupted_rows, save
from unbottle.bench.run import Bench, machine
from unbottle.bench.timing import Time, Work

MB = {"plain": 100.0, METHODS[0]: 90.0, METHODS[1]: 250.0, "softmax+cepr:3": 50.0}


class FakeClock:
    """A clock that only the variant at work moves, by what it costs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def start(self) -> None:
        self.started = self.seconds

    def stop(self) -> Time:
        passed = self.seconds - self.started
        return Time(wall=2 * passed, cpu=passed)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "tiny", TINY)
    monkeypatch.setitem(SHAPES, "tiny-t5", TINY_SEQ2SEQ)


def bench(**changes: Any) -> Bench:
    settings = {"shapes": ("tiny", "tiny-t5"), "contexts": (8, 12), "repeats": 2, "threads": 1} | changes
    saved = settings.pop("saved", ())
    return Bench(BenchSettings(**settings), peak=lambda case: MB[case.variant.name], saved=saved)


def test_rows() -> None:
    run = bench()
    run.run()
    found = [(row.point.shape.name, row.point.title, row.variant.name) for row in run.rows]
    measures = ("forward", "loss", "loss, no logits", "train", "decode at 8", "decode at 12")
    generate = {"tiny": ("generate 8 + 24", "generate 12 + 24"), "tiny-t5": ("generate 24",)}
    causal = [("tiny", m, name) for m in measures + generate["tiny"] for name in ("plain", *METHODS)]
    seq2seq = [("tiny-t5", m, name) for m in measures + generate["tiny-t5"] for name in ("plain", "softmax+cepr:3")]
    assert found == causal + seq2seq
    for row in run.rows:
        assert len(row.times) == 2
        assert row.peak_mb == MB[row.variant.name]
        assert row.memory_ratio == MB[row.variant.name] / 100
        if row.variant.name == "plain":
            assert row.cpu_ratio == row.wall_ratio == 1


def test_ratios_from_a_fake_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes twice as long has ratio two: from the clock through the rounds to the row and its table."""
    clock, cost = FakeClock(), {"plain": 2.0, METHODS[0]: 4.0, METHODS[1]: 3.0}
    before = module.work

    def costly(model: Any, point: Any) -> Any:
        todo = before(model, point)
        name = str(model.head.config.method) if hasattr(model, "head") else "plain"

        def run() -> None:
            clock.seconds += cost[name]

        return Work(todo.prepare, run, todo.steps)

    monkeypatch.setattr(module, "work", costly)
    run = Bench(BenchSettings(shapes=("tiny",), measures=("loss",), repeats=3, threads=1, memory=False), clock=clock)
    run.run()
    assert [(row.cpu, row.wall, row.cpu_ratio, row.wall_ratio) for row in run.rows] == [
        (2, 4, 1, 1), (4, 8, 2, 2), (3, 6, 1.5, 1.5),
    ]  # fmt: skip
    assert "| loss    | mos:2              |   3000 |      1.50 |    6000 |       1.50 |" in document(
        run.rows, run.settings, machine()
    )


def test_progress_ends_at_all_of_it() -> None:
    reports: list[tuple[float, float, str]] = []
    run = bench(measures=("loss", "decode"), contexts=(12,))
    run.report = lambda *report: reports.append(report)
    run.run()
    done = [report[0] for report in reports]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == pytest.approx(reports[-1][1])
    assert reports[-1][2].startswith("tiny-t5 decode at 12: memory of ")


def test_scales_and_head() -> None:
    scales = (Scale("T", (4, 40)), Scale("V", (99,)))
    run = bench(shapes=("tiny",), measures=("train", "head-loss"), memory=False, scales=scales)
    run.run()
    axes = {(row.point.axis, row.point.value) for row in run.rows}
    assert axes == {("T", 4), ("T", 40), ("V", 99)}
    assert {row.point.measure for row in run.rows} == {"train", "head-loss"}


def test_threads_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "work", lambda model, point: Work(lambda: None, lambda: None))
    before = torch.get_num_threads()
    seen: list[int] = []
    run = bench(shapes=("tiny",), measures=("loss",), threads=before + 1)
    run.report = lambda *report: seen.append(torch.get_num_threads())
    run.run()
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("where", ["times", "memory"])
def test_interrupted(where: str, tmp_path: Path) -> None:
    """The group at work counts as far as it got."""
    run = bench(shapes=("tiny",))
    run.report, run.peak = interrupting(where)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    titles = [row.point.title for row in run.rows]
    assert titles[:3] == ["forward"] * 3
    assert "loss" in titles
    assert "train" not in titles
    if where == "memory":
        assert [row.peak_mb for row in run.rows[3:]] == [100, None, None]
    save(tmp_path, run.rows, run.settings, machine(), interrupted=True)
    assert json.loads((tmp_path / "bench.json").read_text())["interrupted"] is True


def interrupting(where: str) -> tuple[Callable[..., None], Callable[[Case], float]]:
    """Stops in the second group: in its third round, or at its second process."""
    runs: list[str] = []

    def report(done: float, total: float, text: str) -> None:
        runs.extend([text] * (where == "times" and "loss: " in text and "starting" not in text))
        if len(runs) == 8:
            raise KeyboardInterrupt

    def peak(case: Case) -> float:
        if where == "memory" and case.point.measure == "loss" and case.variant.name != "plain":
            raise KeyboardInterrupt
        return MB[case.variant.name]

    return report, peak


def test_json(tmp_path: Path) -> None:
    run = bench(shapes=("tiny-t5",), measures=("train", "decode"))
    run.run()
    written = save(tmp_path, run.rows, run.settings, machine())
    assert [path.name for path in written][:2] == ["bench.md", "bench.json"]
    data = json.loads((tmp_path / "bench.json").read_text())
    assert data.keys() == {"settings", "machine", "interrupted", "rows"}
    assert data["machine"].keys() == {"processor", "cores", "system", "versions"}
    assert data["machine"]["versions"].keys() == {"python", "unbottle", "torch", "transformers"}
    assert data["settings"]["repeats"] == 2
    plain, method, *_ = data["rows"]
    assert {k: v for k, v in method.items() if k not in ("cpu", "wall", "flops")} == {
        "shape": "tiny-t5", "vocabulary": 61, "measure": "train", "batch": 2, "length": 6, "source_length": 7,
        "context": None, "scale": None, "method": "softmax+cepr:3", "path": "auto",
        "memory": {"peak_mb": 50.0, "ratio": 0.5}, "goal": {"time": None, "memory": None}, "paper": None,
    }  # fmt: skip
    for kind in ("cpu", "wall"):
        assert len(method[kind]["times"]) == 2
        assert method[kind]["ratio"] == pytest.approx(method[kind]["median"] / plain[kind]["median"])
    assert [row["context"] for row in data["rows"]] == [None, None, 8, 8, 12, 12]


@pytest.mark.parametrize("where", ["times", "memory"])
def test_an_interrupted_run_is_resumed(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are complete are not measured again; the one at work is, from its start."""
    run = bench(shapes=("tiny",))
    run.report, run.peak = interrupting(where)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    save(tmp_path, run.rows, run.settings, machine(), interrupted=True)
    before, measured = module.work, []
    monkeypatch.setattr(module, "work", lambda model, point: measured.append(point.title) or before(model, point))
    again = bench(shapes=("tiny",), saved=interrupted_rows(tmp_path, run.settings, machine()))
    again.run()
    assert set(measured) == {row.point.title for row in again.rows} - {"forward"}
    assert again.rows[:3] == run.rows[:3]
    assert again.done == pytest.approx(again.total)
    assert all(len(row.times) == 2 and row.peak_mb for row in again.rows)


def test_only_the_same_run_is_resumed(tmp_path: Path) -> None:
    run = bench(shapes=("tiny",), measures=("loss",), memory=False, scales=(Scale("T", (8, 9)),))
    run.run()
    here, settings = machine(), run.settings
    assert interrupted_rows(tmp_path, settings, here) == []
    save(tmp_path, run.rows, settings, here, interrupted=False)
    assert interrupted_rows(tmp_path, settings, here) == []
    save(tmp_path, run.rows, settings, here, interrupted=True)
    assert len(interrupted_rows(tmp_path, settings, here)) == len(run.rows) == 6
    assert interrupted_rows(tmp_path, replace(settings, dtype="bfloat16"), here) == []
    assert interrupted_rows(tmp_path, settings, here | {"cores": 99}) == []


def test_rows_of_a_scale_are_told_apart_when_resumed(tmp_path: Path) -> None:
    changes = {"shapes": ("tiny",), "measures": ("loss",), "memory": False, "scales": (Scale("T", (8, 9)),)}
    run = bench(**changes)
    run.run()
    saved = [row.to_dict() for row in run.rows if row.point.value == 8]
    again = bench(**changes, saved=json.loads(json.dumps(saved)))
    again.run()
    assert again.rows[:3] == run.rows[:3]
    assert again.rows[3:] != run.rows[3:]


def test_ratios_to_another_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the paper's ratios; goals are for ratios to the plain model."""
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # goals are for two; they would wait for a core
    changes = {"shapes": ("tiny",), "measures": ("train",), "methods": ("mos:2",), "memory": False, "threads": 2}
    plain = bench(**changes)
    plain.run()
    assert plain.rows[1].goal == Goal(memory=1.0)
    run = bench(**changes, baseline="softmax")
    run._paper = {("tiny", "mos:2"): 1.5}
    run.run()
    softmax, mos = run.rows
    assert (softmax.variant.name, softmax.wall_ratio) == ("softmax", 1)
    assert mos.wall_ratio == mos.wall / softmax.wall
    assert mos.goal == Goal()
    text = document(run.rows, run.settings, machine())
    assert "paper's ratio" in text
    assert "divided by that of `softmax`" in text
    assert "Goals" not in text
