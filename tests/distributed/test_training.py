"""A training in two processes has the losses and ends with the weights of one, through DDP and FSDP2."""

from __future__ import annotations

import pytest
from launching import CEPR, CPR, DDP, FSDP2, TEN, Runs, assert_learnt, assert_same, folder_of, killed

HEAD = {"options": {"max_steps": 10, "save_every": 3, "train": "head"}, "shard": 10_000}
# No reranker: where two words are close to being the k-th, rounding decides which one it is, and LoRA's small steps
# leave them there.
LORA = {"options": {"max_steps": 10, "save_every": 3, "train": "lora"}, "method": "softmax+cp+mi"}
STREAM = {"stream": True, "options": {"max_steps": 10, "save_every": 3}}
DROPOUT = {"dropout": 0.2}


RUNS = {  # what is done in one folder, one after the other
    "ten alone": [CPR | TEN],
    "ten ddp": [CPR | TEN | DDP],
    "ten ddp, then alone": [CPR | TEN | DDP | killed(1, "step", 15), CPR | TEN],
    "ten alone, then fsdp2": [CPR | TEN | killed(0, "write", 5), CPR | TEN | FSDP2],
    "head alone": [CPR | HEAD],
    "head ddp": [CPR | HEAD | DDP],
    "stream alone": [CPR | STREAM],
    "stream ddp": [CPR | STREAM | DDP | killed(0, "step", 6), CPR | STREAM | DDP],
}
LONG = {
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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return folder_of(RUNS, tmp_path_factory)


@pytest.fixture(scope="module")
def long_runs(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    found = folder_of(LONG, tmp_path_factory)
    return lambda name: runs(name) if name in RUNS else found(name)


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


def test_steps_of_several_batches(runs: Runs) -> None:
    assert_same(runs("ten ddp"), runs("ten alone"))


def test_hidden_states_are_written_once_and_read_by_all(runs: Runs) -> None:
    """41 windows and 9 to validate with, a few in each file."""
    assert_same(runs("head ddp"), runs("head alone"))
    files = [sorted(path.name for path in runs(name).glob("states/*/*")) for name in ("head ddp", "head alone")]
    assert files[0] == files[1]
    assert len(files[0]) > 10


def test_a_stream_is_dealt_out(runs: Runs) -> None:
    assert_same(runs("stream ddp"), runs("stream alone"))


def test_only_the_first_process_leaves_files(runs: Runs) -> None:
    found = {path.name for path in (runs("ten ddp") / "checkpoints" / "checkpoint-10").iterdir()}
    wanted = {path.name for path in (runs("ten alone") / "checkpoints" / "checkpoint-10").iterdir()}
    endings = (".json", ".safetensors")
    assert found - wanted == {f"random-{rank}{ending}" for rank in (0, 1) for ending in endings}
    assert wanted - found == {f"random{ending}" for ending in endings}
    left = {path.name for path in runs("ten ddp").iterdir() if not path.name.startswith("threads-")}  # of launched.py
    assert left == {path.name for path in runs("ten alone").iterdir()}
