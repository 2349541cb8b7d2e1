"""A training in two processes has the losses and ends with the weights of one, through DDP and FSDP2."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from launching import launch
from safetensors.numpy import load_file

Runs = Callable[[str], Path]

CPR, CEPR = {"kind": "lm", "method": "softmax+cpr:5,20+mi"}, {"kind": "summaries", "method": "s+cepr:20+mi"}
DDP, FSDP2 = {"processes": 2, "engine": "ddp"}, {"processes": 2, "engine": "fsdp2"}
FIFTY = {"options": {"max_steps": 50, "save_every": None, "eval_every": 25}}
TEN = {"options": {"max_steps": 10, "save_every": 3, "accumulate": 2, "eval_every": 4, "head_lr": 2.0}}
HEAD = {"options": {"max_steps": 10, "save_every": 3, "train": "head"}, "shard": 10_000}
# No reranker: where two words are close to being the k-th, rounding decides which one it is, and LoRA's small steps
# leave them there.
LORA = {"options": {"max_steps": 10, "save_every": 3, "train": "lora"}, "method": "softmax+cp+mi"}
DENSE = {"path": "dense"}
STREAM = {"stream": True, "options": {"max_steps": 10, "save_every": 3}}
DROPOUT = {"dropout": 0.2}


def killed(rank: int, where: str, count: int) -> dict:
    return {"kill": {"rank": rank, "where": where, "count": count}}


RUNS = {  # what is done in one folder, one after the other
    "cpr alone": [CPR | FIFTY],
    "cpr ddp": [CPR | FIFTY | DDP],
    "cepr alone": [CEPR | FIFTY],
    "cepr fsdp2": [CEPR | FIFTY | FSDP2],
    "ten alone": [CPR | TEN],
    "ten ddp, then alone": [CPR | TEN | DDP | killed(1, "step", 15), CPR | TEN],
    "ten alone, then fsdp2": [CPR | TEN | killed(0, "write", 5), CPR | TEN | FSDP2],
    "head alone": [CPR | HEAD],
    "head ddp": [CPR | HEAD | DDP],
    "stream alone": [CPR | STREAM],
    "stream ddp": [CPR | STREAM | DDP | killed(0, "step", 6), CPR | STREAM | DDP],
}
LONG = {
    "cpr fsdp2": [CPR | FIFTY | FSDP2],
    "cepr ddp": [CEPR | FIFTY | DDP],
    "cpr dense alone": [CPR | FIFTY | DENSE],
    "cpr dense ddp": [CPR | FIFTY | DENSE | DDP],
    "cpr dense fsdp2": [CPR | FIFTY | DENSE | FSDP2],
    "cepr dense alone": [CEPR | FIFTY | DENSE],
    "cepr dense ddp": [CEPR | FIFTY | DENSE | DDP],
    "cepr dense fsdp2": [CEPR | FIFTY | DENSE | FSDP2],
    "plain alone": [CEPR | TEN | {"method": None}],
    "plain ddp": [CEPR | TEN | {"method": None} | DDP],
    "plain fsdp2": [CEPR | TEN | {"method": None} | FSDP2],
    "ten fsdp2, then ddp": [CPR | TEN | FSDP2 | killed(1, "write", 2), CPR | TEN | DDP],
    "ten fsdp2, then fsdp2": [CPR | TEN | FSDP2 | killed(0, "seal", 2), CPR | TEN | FSDP2],
    "head fsdp2": [CPR | HEAD | FSDP2 | killed(1, "step", 5), CPR | HEAD | FSDP2],
    "lora alone": [CPR | LORA],
    "lora ddp": [CPR | LORA | DDP],
    "lora fsdp2": [CPR | LORA | FSDP2],
    "dropout ddp": [CPR | TEN | DROPOUT | DDP],
    "dropout ddp, then ddp": [CPR | TEN | DROPOUT | DDP | killed(1, "step", 17), CPR | TEN | DROPOUT | DDP],
}


def folder_of(runs: dict[str, list[dict]], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All runs. Finds the folder of each."""
    folders = {name: tmp_path_factory.mktemp("run") for name in runs}
    jobs = [job | {"folder": str(folders[name])} for name, each in runs.items() for job in each]
    found, said = launch(jobs)
    for job, codes in zip(jobs, found, strict=True):
        if kill := job.get("kill"):
            assert codes[kill["rank"]] == -signal.SIGKILL, (job, codes)
            assert all(codes), "whoever is left alone must not end as if all was well"
        else:
            assert not any(codes), (job, codes, said)
    return folders.__getitem__


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return folder_of(RUNS, tmp_path_factory)


@pytest.fixture(scope="module")
def long_runs(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    found = folder_of(LONG, tmp_path_factory)
    return lambda name: runs(name) if name in RUNS else found(name)


def answer(folder: Path) -> dict:
    return json.loads((folder / "answer.json").read_text())


def assert_same(folder: Path, other: Path, tolerance: float = 1e-5) -> None:
    """Losses, validation losses and final weights."""
    here, there = answer(folder), answer(other)
    for name in ("losses", "valid_losses"):
        np.testing.assert_allclose(here[name], there[name], atol=tolerance, rtol=tolerance, err_msg=name)
    weights, others = (load_file(path / "model" / "model.safetensors") for path in (folder, other))
    assert weights.keys() == others.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, others[name], atol=tolerance, rtol=tolerance, err_msg=name)


def assert_learnt(folder: Path, steps: int) -> None:
    losses = [loss for _, loss in answer(folder)["losses"]]
    assert len(losses) == steps
    assert losses[-1] < losses[0] - 0.01


@pytest.mark.parametrize(("both", "alone"), [("cpr ddp", "cpr alone"), ("cepr fsdp2", "cepr alone")])
def test_fifty_steps_are_those_of_one_process(both: str, alone: str, runs: Runs) -> None:
    assert len(answer(runs(both))["valid_losses"]) == 3
    assert_learnt(runs(both), 50)
    assert_same(runs(both), runs(alone))


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in LONG if len(LONG[name]) == 1 and LONG[name][0].get("processes")])
def test_long_runs_are_those_of_one_process(name: str, long_runs: Runs) -> None:
    if "dropout" not in name:
        assert_same(long_runs(name), long_runs(f"{name.rsplit(maxsplit=1)[0]} alone"))


@pytest.mark.parametrize("name", ["ten ddp, then alone", "ten alone, then fsdp2"])
def test_one_was_killed_and_others_go_on(name: str, runs: Runs) -> None:
    assert_learnt(runs(name), 10)
    assert_same(runs(name), runs("ten alone"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("ten fsdp2, then ddp", "ten alone"),
        ("ten fsdp2, then fsdp2", "ten alone"),
        ("head fsdp2", "head alone"),
        ("dropout ddp, then ddp", "dropout ddp"),
    ],
)
def test_killed_and_resumed_as_two(name: str, other: str, long_runs: Runs) -> None:
    assert_same(long_runs(name), long_runs(other))


def test_hidden_states_are_written_once_and_read_by_all(runs: Runs) -> None:
    """41 windows and 9 to validate with, a few in each file."""
    assert_same(runs("head ddp"), runs("head alone"))
    files = [sorted(path.name for path in runs(name).glob("states/*/*")) for name in ("head ddp", "head alone")]
    assert files[0] == files[1]
    assert len(files[0]) > 10


def test_a_stream_is_dealt_out(runs: Runs) -> None:
    assert_same(runs("stream ddp"), runs("stream alone"))


def test_only_the_first_process_leaves_files(runs: Runs) -> None:
    found = {path.name for path in (runs("cpr ddp") / "checkpoints" / "checkpoint-50").iterdir()}
    wanted = {path.name for path in (runs("cpr alone") / "checkpoints" / "checkpoint-50").iterdir()}
    endings = (".json", ".safetensors")
    assert found - wanted == {f"random-{rank}{ending}" for rank in (0, 1) for ending in endings}
    assert wanted - found == {f"random{ending}" for ending in endings}
    assert {path.name for path in runs("cpr ddp").iterdir()} == {path.name for path in runs("cpr alone").iterdir()}
