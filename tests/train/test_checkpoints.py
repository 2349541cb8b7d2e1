"""Full disks and damaged checkpoints: nothing is lost, and nothing damaged is taken."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
import tiny_training as tiny
from safetensors import SafetensorError

from unbottle.files import explain_full_disk
from unbottle.train import train_lm
from unbottle.train.checkpoints import latest, rotate, seal, write_state

FULL = [  # as they were seen on a disk that was full
    OSError(errno.ENOSPC, "No space left on device"),
    RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"),
    RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 26688 vs 26576"),
    RuntimeError("basic_ios::clear: iostream error"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
]
FULL_SENTENCE = r"^the disk of .* is full\. Files written before are complete: .* rerun the same command to resume\.$"


@pytest.mark.parametrize("error", FULL, ids=str)
def test_a_full_disk_is_one_sentence(error: Exception, tmp_path) -> None:
    with pytest.raises(OSError, match=FULL_SENTENCE) as found, explain_full_disk(tmp_path):
        raise error
    assert found.value.errno == errno.ENOSPC


def test_other_errors_stay_what_they_are(tmp_path) -> None:
    for error in (RuntimeError("shapes differ"), PermissionError(errno.EACCES, "not yours")):
        with pytest.raises(type(error)) as found, explain_full_disk(tmp_path):
            raise error
        assert found.value is error


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """write_state, which a checkpoint calls three times, fails at its fifth call."""
    calls = []

    def write(*args):
        calls.append(1)
        if len(calls) >= 5:
            raise FULL[0]
        write_state(*args)

    monkeypatch.setattr("unbottle.train.trainer.write_state", write)
    with pytest.raises(OSError, match=FULL_SENTENCE):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-2"]
    assert not [*(tmp_path / ".writing").iterdir()]
    monkeypatch.undo()
    model, other = tiny.model(), tiny.model()
    result = train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert result.losses == train_lm(other, tiny.windows(), None, tiny.settings(tmp_path / "whole")).losses
    assert tiny.same(tiny.weights(model), tiny.weights(other))


def damaged(file: Path, damage: str) -> None:
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-10] if damage == "cut" else content[:-10] + bytes(10))


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_offered(tmp_path) -> None:
    other, model = tiny.model(), tiny.model()
    train_lm(other, tiny.windows(), None, tiny.settings(tmp_path))
    last = tmp_path / "checkpoints" / "checkpoint-8"
    damaged(last / "optimizer.safetensors", "cut")
    with pytest.raises(
        ValueError,
        match=r"^damaged: .*checkpoint-8 \(optimizer.safetensors has \d+ bytes, not \d+\)\. Delete it to resume from "
        r"checkpoint-6, which is intact, and run the same command again\.$",
    ):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))
    shutil.rmtree(last)
    result = train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert result.steps == 8
    assert tiny.same(tiny.weights(model), tiny.weights(other))


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("a.pt", "cut", "a.pt has 10 bytes, not 20"),
        ("a.pt", "changed", "a.pt has another checksum"),
        ("a.pt", "missing", "a.pt is missing"),
        ("manifest.json", "missing", "manifest.json is missing"),
        ("manifest.json", "cut", "manifest.json cannot be read"),
    ],
)
def test_what_makes_a_checkpoint_whole(name: str, damage: str, problem: str, tmp_path) -> None:
    for step in (9, 10):
        (tmp_path / "writing" / f"checkpoint-{step}").mkdir(parents=True)
        (tmp_path / "writing" / f"checkpoint-{step}" / "a.pt").write_bytes(b"x" * 20)
        seal(tmp_path / "writing" / f"checkpoint-{step}", tmp_path)
    (tmp_path / "checkpoint-extra").mkdir()
    assert latest(tmp_path) == tmp_path / "checkpoint-10"
    damaged(tmp_path / "checkpoint-10" / name, damage)
    with pytest.raises(ValueError, match=rf"checkpoint-10 \({problem}\)\. Delete it to resume from checkpoint-9, "):
        latest(tmp_path)
    rotate(tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-extra", "writing"]
    with pytest.raises(ValueError, match=r"Delete it to start from the beginning, and run the same command again\."):
        latest(tmp_path)
