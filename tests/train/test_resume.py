"""A run that was killed at any moment ends as one that was not: same weights, same losses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed.py")
METHOD = "softmax+cpr:5,20+mi"
MANY = {"accumulate": 2, "eval_every": 3, "epochs": 1.7, "max_steps": None, "head_lr": 2.0}
HEAD, LORA = MANY | {"train": "head"}, MANY | {"train": "lora"}
KILLS = {  # options, and where it is killed again and again
    "unbroken all": (MANY, []),
    "unbroken head": (HEAD, []),
    "unbroken lora": (LORA, []),
    "head": (HEAD, [("states", 1), ("write", 4)]),
    "lora": (LORA, [("write", 4)]),
    "steps": (
        MANY,
        [("step", 9), ("write", 5), ("step", 2)],
    ),  # 2 batches a step; a checkpoint calls write_state 3 times
    "checkpoints": (MANY, [("seal", 2), ("rotate", 2), ("model", 1)]),
}


def jobs(folder: Path, options: dict, kills: list) -> list[dict]:
    """Killed, killed again, and to its end."""
    job = {"folder": str(folder), "options": options, "method": METHOD}
    killed = [job | {"where": where, "count": count} for where, count in kills]
    return [*killed, job | {"where": None, "count": 0}]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[int], Path]]:
    folders = {name: tmp_path_factory.mktemp("run") for name in KILLS}
    todo = {name: jobs(folders[name], *KILLS[name]) for name in KILLS}
    given = json.dumps([job for each in todo.values() for job in each])
    done = subprocess.run([sys.executable, str(SCRIPT)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    codes = iter(json.loads(done.stdout))
    return {name: ([next(codes) for _ in each], folders[name]) for name, each in todo.items()}


@pytest.mark.parametrize("name", KILLS)
def test_killed_and_resumed(name: str, runs: dict[str, tuple[list[int], Path]]) -> None:
    codes, folder = runs[name]
    assert codes == [*[-signal.SIGKILL] * len(KILLS[name][1]), 0]
    unbroken = runs[f"unbroken {KILLS[name][0].get('train', 'all')}"][1]
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (folder, unbroken)]
    assert weights[0] == weights[1]
    found, wanted = (json.loads((path / "answer.json").read_text()) for path in (folder, unbroken))
    for key in ("steps", "losses", "valid_losses", "tokens"):
        assert found[key] == wanted[key], key
    assert found["steps"] == 11
    assert [step for step, _ in found["losses"]] == [3, 6, 9]
    assert [step for step, _ in found["valid_losses"]] == [0, 3, 6, 9, 11]
