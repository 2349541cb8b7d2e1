"""Two processes, one SIGTERM: both end after the same step, with one checkpoint; and no thread outlives its group."""

from __future__ import annotations

import json

import pytest
from launching import CPR, DDP, Runs, assert_same, folder_of, terminated

pytestmark = pytest.mark.full  # one process: tests/train/test_preemption.py
STEPS = {"options": {"max_steps": 4, "save_every": None, "accumulate": 2}}
RUNS = {
    "ddp": [CPR | DDP | STEPS],
    "preempted": [CPR | DDP | STEPS | terminated(1, "step", 3), CPR | DDP | STEPS],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return folder_of(RUNS, tmp_path_factory)


def test_both_end_and_both_go_on(runs: Runs) -> None:
    assert_same(runs("preempted"), runs("ddp"), exact=0.0, relative=0.0)


@pytest.mark.parametrize("name", RUNS)  # not FSDP2, whose model holds its group
@pytest.mark.parametrize("rank", [0, 1])
def test_no_thread_outlives_its_group(name: str, rank: int, runs: Runs) -> None:
    """One that does aborts the process, now and then, when it exits: terminate called without an active exception."""
    threads = json.loads((runs(name) / f"threads-{rank}.json").read_text())
    assert not [thread for thread in threads if "gloo" in thread or "tcpstore" in thread], threads
