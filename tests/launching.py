"""Trainings as one process or two, all by one process that forks (imports take longer than tiny trainings), and what
came of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from unbottle.train.callbacks import PREEMPTED

Runs = Callable[[str], Path]

CPR, CEPR = {"kind": "lm", "method": "softmax+cpr:5,20+mi"}, {"kind": "summaries", "method": "s+cepr:20+mi"}
DDP, FSDP2 = {"processes": 2, "engine": "ddp"}, {"processes": 2, "engine": "fsdp2"}
FIFTY = {"options": {"max_steps": 50, "save_every": None, "eval_every": 25}}
TEN = {"options": {"max_steps": 10, "save_every": 3, "accumulate": 2, "eval_every": 4, "head_lr": 2.0}}
PATIENCE = 3600  # seconds; on a machine that is busy with other things a minute of work takes a while


def terminated(rank: int, where: str, count: int) -> dict:
    """This process gets SIGTERM, and both end with a checkpoint."""
    return {"kill": {"rank": rank, "where": where, "count": count, "signal": "SIGTERM"}}


def killed(rank: int, where: str, count: int) -> dict:
    return {"kill": {"rank": rank, "where": where, "count": count}}


def launch(jobs: list[dict]) -> tuple[list[list[int]], str]:
    """Exit codes of the processes of each job, and what they said."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "distributed" / "launched.py")],
        input=json.dumps(jobs), capture_output=True, text=True, timeout=PATIENCE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr[-5000:]


def folder_of(runs: dict[str, list[dict]], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All runs. Finds the folder of each."""
    folders = {name: tmp_path_factory.mktemp("run") for name in runs}
    jobs = [job | {"folder": str(folders[name])} for name, each in runs.items() for job in each]
    found, said = launch(jobs)
    for job, codes in zip(jobs, found, strict=True):
        if (kill := job.get("kill")) and "signal" in kill:
            assert codes == [PREEMPTED] * len(codes), (job, codes, said)
        elif kill:
            assert codes[kill["rank"]] == -signal.SIGKILL, (job, codes)
            assert all(codes), "whoever is left alone must not end as if all was well"
        else:
            assert not any(codes), (job, codes, said)
    return folders.__getitem__


def answer(folder: Path) -> dict:
    return json.loads((folder / "answer.json").read_text())


def assert_same(folder: Path, other: Path, *, relative: float = 1e-5, exact: float = 1e-5) -> None:
    """Losses to 1e-5; validation losses and final weights, which no log rounds, to `exact`."""
    here, there = answer(folder), answer(other)
    for name, absolute in (("losses", 1e-5), ("valid_losses", exact)):
        np.testing.assert_allclose(here[name], there[name], atol=absolute, rtol=relative, err_msg=name)
    weights, others = (load_file(path / "model" / "model.safetensors") for path in (folder, other))
    assert weights.keys() == others.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, others[name], atol=exact, rtol=relative, err_msg=name)


def assert_learnt(folder: Path, steps: int) -> None:
    losses = [loss for _, loss in answer(folder)["losses"]]
    assert len(losses) == steps
    assert losses[-1] < losses[0] - 0.01
