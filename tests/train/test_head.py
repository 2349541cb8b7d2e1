"""The head alone, on stored hidden states, learns what it learns on a frozen model that reads along."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tiny_training as tiny
import torch
from safetensors.torch import load_file

from unbottle.train import hidden_state_cache, train_lm

METHODS = ["softmax+cpr:5,20+mi", "ps+c", "softmax+wbwr:3"]


@pytest.mark.parametrize("method", METHODS)
def test_stored_states_train_as_a_frozen_model_does(method: str, tmp_path) -> None:
    steps = {"max_steps": 6, "log_every": 1, "save_every": None}
    data = tiny.windows(), tiny.windows(101, 1)  # the last window of 101 is shorter
    model = tiny.model(method)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stored = train_lm(model, *data, tiny.settings(tmp_path / "stored", train="head", **steps))
    other = tiny.model(method, dropout=0.0)
    other.requires_grad_(False)
    other.head.requires_grad_(True)
    reading = train_lm(other, *data, tiny.settings(tmp_path / "reading", train="all", **steps))
    assert np.allclose(stored.losses, reading.losses, atol=1e-5)
    assert np.allclose(stored.valid_losses, reading.valid_losses, atol=1e-5)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("head.") for name in changed)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert bool([*tmp_path.glob("stored/states/*/*.safetensors")]) == ("wbwr" not in method)


def test_rows_of_different_lengths(tmp_path) -> None:
    """The longest row is neither the first nor the last."""
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(0, tiny.VOCABULARY, (length,), generator=generator) for length in (5, 3, 12, 9, 4, 7, 2, 6)]
    rows = [{"input_ids": row, "labels": row.clone()} for row in ids]
    steps = {"max_steps": 3, "log_every": 1, "save_every": None, "batch": 4, "shuffle": False}
    losses = []
    for train in ("head", "all"):
        model = tiny.model("softmax+cpr:5,20+mi", dropout=0.0)
        model.requires_grad_(False)
        model.head.requires_grad_(True)
        losses.append(train_lm(model, rows, None, tiny.settings(tmp_path / train, train=train, **steps)).losses)
    assert np.allclose(*losses, atol=1e-5)


def store(folder, model, windows):
    return hidden_state_cache.open_store(folder, model, windows, torch.float32, "float32")


def test_a_store_is_for_one_model_one_text_and_one_depth(tmp_path) -> None:
    model, windows = tiny.model(), tiny.windows()
    same = store(tmp_path, tiny.model(), tiny.windows()).folder
    assert store(tmp_path, model, windows).folder == same
    others = [
        store(tmp_path, tiny.model(seed=1), windows).folder,
        store(tmp_path, tiny.model("softmax+c"), windows).folder,
        store(tmp_path, model, tiny.windows(seed=1)).folder,
        hidden_state_cache.open_store(tmp_path, model, windows, torch.bfloat16, "float32").folder,
    ]
    with torch.no_grad():
        next(model.parameters())[3, 2] += 1e-6
    others.append(store(tmp_path, model, windows).folder)
    assert len({same, *others}) == 6


def test_parts_of_a_store(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several files; what is missing or cut is written again, what is there is kept."""
    windows, shape = tiny.windows(130), (11, 12, 3, 16)
    monkeypatch.setattr(hidden_state_cache, "SHARD", 4 * 12 * 3 * 16 * 4)
    asked = []

    def layers(batch):
        asked.append(len(batch["input_ids"]))
        return batch["input_ids"][:, :, None, None].expand(-1, -1, 3, 16).float()

    made = hidden_state_cache.StateStore(tmp_path, shape, torch.float32)
    made.fill(windows, layers, 3, lambda *told: None)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 3
    assert asked == [3, 1, 3, 1, 3]
    for place in (0, 4, 10):
        ids = windows[place]["input_ids"]
        assert torch.equal(made[place][: len(ids), 2, 7], ids.float())
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    asked.clear()
    with pytest.warns(UserWarning, match=rf"{files[1].name} is not used \(it cannot be read: .*computed again"):
        hidden_state_cache.StateStore(tmp_path, shape, torch.float32).fill(windows, layers, 3, lambda *told: None)
    assert asked == [3, 1, 3, 1]


def test_an_edited_or_foreign_part_is_not_used(tmp_path) -> None:
    windows, shape = tiny.windows(130), (11, 12, 3, 16)

    def fill(folder, layers=1.0):
        made = hidden_state_cache.StateStore(folder, shape, torch.float32)
        made.fill(
            windows, lambda batch: torch.full((len(batch["input_ids"]), 12, 3, 16), layers), 3, lambda *told: None
        )
        return made

    file = tmp_path / "one" / "00000.safetensors"
    fill(tmp_path / "one")
    right = file.read_bytes()
    fill(tmp_path / "one", 2.0)
    assert file.read_bytes() == right, "what is whole is not made again"
    file.write_bytes(right[:-1] + b"\7")
    with pytest.warns(UserWarning, match=r"00000\.safetensors is not used \(it was edited\): .* computed again"):
        assert fill(tmp_path / "one")[10][11, 2, 15] == 1.0
    assert len(file.read_bytes()) == len(right), "the same but for the order of what the header says"
    assert (load_file(file)["layers"] == 1.0).all()
    fill(tmp_path / "two", 2.0)
    file.write_bytes((tmp_path / "two" / "00000.safetensors").read_bytes())
    with pytest.warns(UserWarning, match=r"is not used \(it belongs to another model, text or version\)"):
        assert fill(tmp_path / "one")[0][0, 0, 0] == 1.0


def test_a_store_under_a_wrong_name_is_refused(tmp_path) -> None:
    """As if another model or version had written what lies under this name."""
    here = store(tmp_path, tiny.model(), tiny.windows()).folder
    other = store(tmp_path, tiny.model(seed=1), tiny.windows()).folder
    shutil.rmtree(here)
    other.rename(here)
    with pytest.raises(ValueError, match=r"these hidden states belong to something else \(model differ\).*Delete"):
        store(tmp_path, tiny.model(), tiny.windows())


def test_a_store_that_does_not_fit(tmp_path) -> None:
    huge = hidden_state_cache.StateStore(tmp_path, (20, 10**9, 3, 768), torch.float32)
    with pytest.raises(OSError, match=r"the hidden states need .* GB in .*: set hidden_states_dir to a folder with"):
        huge.fill(None, None, 4, lambda *told: None)
