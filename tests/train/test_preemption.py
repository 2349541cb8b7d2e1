"""SIGTERM: a training saves a checkpoint, ends with its own exit code, and goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiny_training as tiny

from unbottle.cli.errors import ending
from unbottle.train import Preempted, train_lm
from unbottle.train.callbacks import PREEMPTED, Preemption

SCRIPT = Path(__file__).with_name("killed.py")
ALL = {"accumulate": 2, "eval_every": 3, "epochs": 1.7, "max_steps": None, "save_every": None}
HEAD = ALL | {"train": "head"}
SIGNALS = {  # options, and where SIGTERM arrives, again and again; what is said then
    "unbroken all": (ALL, []),
    "unbroken head": (HEAD, []),
    "all": (
        ALL,  # 2 batches a step, 11 an epoch: early in step 5, late in step 7, and after the last step
        [("step", 9, "checkpoint-5 is saved"), ("step", 3, "checkpoint-7 is saved"), ("model", 1, "checkpoint-11 is")],
    ),
    "head": (HEAD, [("states", 1, "no step was completed"), ("step", 1, "checkpoint-1 is saved")]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[int], Path]]:
    todo: dict[str, list[dict]] = {}
    for name, (options, signals) in SIGNALS.items():
        job = {"folder": str(tmp_path_factory.mktemp("run")), "options": options, "method": "softmax+cpr:5,20+mi"}
        sent = [job | {"where": where, "count": count, "signal": "SIGTERM"} for where, count, _ in signals]
        todo[name] = [*sent, job | {"where": None, "count": 0}]
    given = json.dumps([job for jobs in todo.values() for job in jobs])
    done = subprocess.run([sys.executable, str(SCRIPT)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    codes = iter(json.loads(done.stdout))
    return {name: ([next(codes) for _ in jobs], Path(jobs[0]["folder"])) for name, jobs in todo.items()}


@pytest.mark.parametrize("name", ["all", "head"])
def test_preempted_and_resumed(name: str, runs: dict[str, tuple[list[int], Path]]) -> None:
    codes, folder = runs[name]
    unbroken = runs[f"unbroken {name}"][1]
    assert codes == [*[PREEMPTED] * len(SIGNALS[name][1]), 0]
    messages = (folder / "preempted.txt").read_text(encoding="utf-8").splitlines()
    for message, (_, _, wanted) in zip(messages, SIGNALS[name][1], strict=True):
        assert wanted in message
        assert message.startswith("stopped by SIGTERM: ")
        assert message.endswith(". Rerun the same command to resume.")
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (folder, unbroken)]
    assert weights[0] == weights[1]
    resumed, wanted = (json.loads((path / "answer.json").read_text()) for path in (folder, unbroken))
    for key in ("steps", "losses", "valid_losses", "tokens"):
        assert resumed[key] == wanted[key], key
    assert resumed["steps"] == 11


def test_the_exit_code_of_the_program(capsys: pytest.CaptureFixture) -> None:
    with ending(debug=False) as end:
        raise Preempted("stopped by SIGTERM: checkpoint-5 is saved. Rerun the same command to resume.")
    assert end.code == 75
    wanted = "unbottle: stopped by SIGTERM: checkpoint-5 is saved. Rerun the same command to resume.\n"
    assert capsys.readouterr().err == wanted


def test_the_handler_of_before_is_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Preemption(tmp_path).listening():
        assert signal.getsignal(signal.SIGTERM) != before
        with pytest.raises(Preempted):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_training_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    results: list = []

    def work() -> None:
        results.append(train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path, max_steps=1)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [result.steps for result in results] == [1]
