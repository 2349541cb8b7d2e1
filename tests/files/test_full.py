"""A full disk: one sentence, and what was written before stays."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
import tiny_training as tiny
import torch
from safetensors import SafetensorError

from unbottle.files import ResumableJsonl, write_text
from unbottle.train import hidden_state_cache, modes, train_lm

SENTENCE = r"^the disk of .* is full\. Files written before are complete: .* rerun the same command to resume\.$"


def full(*args: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_the_model_at_the_end(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path / "whole"))
    monkeypatch.setattr(modes, "replace_folder", full)
    with pytest.raises(OSError, match=SENTENCE):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path / "full"))
    assert not (tmp_path / "full" / "model").exists()
    monkeypatch.undo()
    found = train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path / "full"))
    assert found.losses == whole.losses
    assert weights(tmp_path / "full") == weights(tmp_path / "whole")


def test_hidden_states(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two files does not fit; the first is not made again."""
    original, asked = hidden_state_cache.save_file, []
    monkeypatch.setattr(hidden_state_cache, "SHARD", 6 * 12 * 3 * 16 * 4)

    def save(tensors, path, header):
        asked.append(path.name)
        if len(asked) == 2:
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        original(tensors, path, header)

    monkeypatch.setattr(hidden_state_cache, "save_file", save)
    store = hidden_state_cache.StateStore(tmp_path / "store", (11, 12, 3, 16), torch.float32)

    def fill() -> None:
        store.fill(tiny.windows(130), lambda rows: torch.ones(len(rows["input_ids"]), 12, 3, 16), 4, lambda *told: None)

    with pytest.raises(OSError, match=SENTENCE):
        fill()
    fill()
    assert asked == ["00000.writing", "00001.writing", "00001.writing"]


def test_results(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "result.json", "before")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match=SENTENCE):
        write_text(tmp_path / "result.json", "after")
    monkeypatch.undo()
    assert (tmp_path / "result.json").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_predictions_and_completions(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both go on from the last batch that is whole."""
    with ResumableJsonl(tmp_path / "predictions.jsonl", {}, sidecar=True) as file:
        file.resume(2, 1)
        file.append([{"prediction": "one"}])
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match=SENTENCE):
            file.append([{"prediction": "two"}])
    monkeypatch.undo()
    row = {"continuation": "x"}
    with ResumableJsonl(tmp_path / "completions.jsonl", {}) as completions:
        assert completions.resume(2, 1) == []
        completions.append([row])
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match=SENTENCE):
            completions.append([row])
    monkeypatch.undo()
    lines = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"prediction": "one"}
    with ResumableJsonl(tmp_path / "completions.jsonl", {}) as completions:
        assert completions.resume(2, 1)[0] == row
