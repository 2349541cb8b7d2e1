"""DeepSpeed ZeRO 2 in two processes on CPUs, where it is installed: losses, weights and checkpoints of one process."""

from __future__ import annotations

import importlib.util

import pytest
from launching import CEPR, CPR, DDP, FIFTY, TEN, Runs, answer, assert_learnt, assert_same, folder_of, killed

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="needs DeepSpeed: pip install deepspeed"
)

ZERO = {"processes": 2, "engine": "zero2"}
RUNS = {  # what is done in one folder, one after the other
    "cpr alone": [CPR | FIFTY],
    "cpr zero": [CPR | FIFTY | ZERO],
    "cepr alone": [CEPR | FIFTY],
    "cepr zero": [CEPR | FIFTY | ZERO],
    "ten alone": [CPR | TEN],
    "ten zero, then zero": [CPR | TEN | ZERO | killed(1, "step", 15), CPR | TEN | ZERO],
    "ten zero, then alone": [CPR | TEN | ZERO | killed(0, "write", 5), CPR | TEN],
    "ten ddp, then zero": [CPR | TEN | DDP | killed(1, "step", 15), CPR | TEN | ZERO],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return folder_of(RUNS, tmp_path_factory)


@pytest.mark.parametrize("method", ["cpr", "cepr"])
def test_fifty_steps_are_those_of_one_process(method: str, runs: Runs) -> None:
    assert len(answer(runs(f"{method} zero"))["valid_losses"]) == 3
    assert_learnt(runs(f"{method} zero"), 50)
    assert_same(runs(f"{method} zero"), runs(f"{method} alone"))


@pytest.mark.parametrize("name", ["ten zero, then zero", "ten zero, then alone", "ten ddp, then zero"])
def test_killed_and_resumed(name: str, runs: Runs) -> None:
    """Its checkpoints are those of every engine."""
    assert_same(runs(name), runs("ten alone"))
    found = {path.suffix for path in (runs(name) / "checkpoints").rglob("*") if path.is_file()}
    assert found == {".json", ".safetensors"}
