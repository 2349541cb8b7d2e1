"""What several processes refuse, seen in real ones: a folder that is in use, and processes that differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from launching import launch

pytestmark = pytest.mark.full  # six pairs of processes; the lock of a folder: tests/files/test_lock.py
Found = Callable[[str], tuple[Path, list[int]]]

SHORT = {"kind": "lm", "method": "softmax+cpr:5,20+mi", "options": {"max_steps": 4}}
TWO = {"processes": 2, "engine": "ddp"}
FIRST = {"stand": 3}  # stops at its third step until the next job, in the same folder, has ended
REFUSED = {"refused": True}

RUNS = {  # in one folder each
    "alone": [SHORT],
    "one and one": [SHORT | FIRST, SHORT | REFUSED],
    "two and two": [SHORT | TWO | FIRST, SHORT | TWO | REFUSED],
    "settings": [SHORT | TWO | REFUSED | {"second": {"options": {"max_steps": 4, "lr": 2e-3}}}],
    "method": [SHORT | TWO | REFUSED | {"second": {"method": "softmax+c"}}],
    "weights": [SHORT | TWO | REFUSED | {"second": {"seed": 1}}],
    "data": [SHORT | TWO | REFUSED | {"second": {"text": 1}}],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The folder of each run, and the exit codes of its last job."""
    folders = {name: tmp_path_factory.mktemp("run") for name in RUNS}
    jobs = [job | {"folder": str(folders[name])} for name, each in RUNS.items() for job in each]
    codes, said = launch(jobs)
    names = [name for name, each in RUNS.items() for _ in each]
    for name, job, code in zip(names, jobs, codes, strict=True):
        assert job.get("refused") or not any(code), (name, code, said)
    last = dict(zip(names, codes, strict=True))
    return lambda name: (folders[name], last[name])


def sentence(folder: Path, rank: int) -> str:
    return (folder / f"said-{rank}.txt").read_text()


@pytest.mark.parametrize("name", ["one and one", "two and two"])
def test_a_second_run_in_the_same_folder_is_refused(name: str, found: Found) -> None:
    """Every process of it says who is there; the first run ends as if nobody had come."""
    folder, codes = found(name)
    assert codes == [1] * len(codes)
    who = (folder / "standing").read_text()
    for rank in range(len(codes)):
        wanted = f"ValueError: {folder} is in use by process {who}. Wait until it is finished, or give another"
        assert sentence(folder, rank).startswith(wanted)
    here, alone = (json.loads((path / "answer.json").read_text()) for path in (folder, found("alone")[0]))
    np.testing.assert_allclose(here["losses"], alone["losses"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "difference"),
    [
        ("settings", r"settings learning_rate \(0\.002\) than process 0 \(0\.001\)"),
        ("method", r"model head \('softmax\+c'\) than process 0 \('softmax\+cpr:5,20\+mi'\)"),
        ("weights", r"model weights \('\w+'\) than process 0 \('\w+'\)"),
        ("data", r"data train \('\w+'\) than process 0 \('\w+'\)"),
    ],
)
def test_processes_that_differ_are_refused(name: str, difference: str, found: Found) -> None:
    """By all of them, by what differs, and before the folder is claimed."""
    folder, codes = found(name)
    assert codes == [1, 1]
    for rank in (0, 1):
        wanted = rf"ValueError: process 1 started with another {difference}\. Give all of them the same command"
        assert re.match(wanted, sentence(folder, rank)), sentence(folder, rank)
    assert not (folder / "run.json").exists()
    assert not (folder / "checkpoints").exists()
