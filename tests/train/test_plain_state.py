"""State without pickle: what comes back is what was written, bit for bit."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from unbottle.train.checkpoints import random_state, read_state, set_random_state, write_state


def test_everything_comes_back(tmp_path) -> None:
    state = {
        "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.randn(2, 3), "half": torch.randn(2).bfloat16()}},
        "groups": [{"lr": 0.1 + 0.2, "betas": (0.9, 0.999), "fused": None, "foreach": True, "params": [0, 1]}],
        "texts": ("a", ["b", {}]),
        "inf": float("-inf"),
    }
    write_state(tmp_path, "optimizer", state)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["optimizer.json", "optimizer.safetensors"]
    found = read_state(tmp_path, "optimizer")
    for name, value in state["state"][0].items():
        other = found["state"][0].pop(name)
        assert torch.equal(other, value)
        assert other.dtype == value.dtype
    state["state"][0].clear()
    assert found == state
    assert type(found["groups"][0]["betas"]) is tuple


def test_optimizers_go_on_as_if_nothing_had_happened(tmp_path) -> None:
    def made():
        torch.manual_seed(0)
        layer = torch.nn.Linear(5, 3)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
        return layer, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))

    def step(layer, optimizer, schedule):
        layer(torch.randn(2, 5)).square().sum().backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    unbroken = made()
    for _ in range(4):
        step(*unbroken)
    broken = made()
    for _ in range(2):
        step(*broken)
    for name, part in zip(("optimizer", "schedule"), broken[1:], strict=True):
        write_state(tmp_path, name, part.state_dict())
    write_state(tmp_path, "random", random_state())
    kept = {name: value.clone() for name, value in broken[0].state_dict().items()}
    torch.manual_seed(99)
    resumed = made()
    resumed[0].load_state_dict(kept)
    for name, part in zip(("optimizer", "schedule"), resumed[1:], strict=True):
        part.load_state_dict(read_state(tmp_path, name))
    set_random_state(read_state(tmp_path, "random"))
    for _ in range(2):
        step(*resumed)
    for one, other in zip(unbroken[0].parameters(), resumed[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_all_generators_come_back(tmp_path) -> None:
    def draw():
        return random.random(), float(np.random.normal()), torch.randn(2).tolist()

    draw()  # NumPy's keeps a second number, as every other one
    write_state(tmp_path, "random", random_state())
    wanted = draw()
    draw()
    set_random_state(read_state(tmp_path, "random"))
    assert draw() == wanted


def test_what_another_version_wrote_is_refused(tmp_path) -> None:
    (tmp_path / "optimizer.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(FileNotFoundError, match=r"has no optimizer\.json: another version of unbottle wrote it"):
        read_state(tmp_path, "optimizer")


@pytest.mark.parametrize("structure", [{"tensor": "7"}, {"items": 3}, {"array": "0", "dtype": "no"}, {"code": "x"}])
def test_what_was_edited_is_refused(structure: dict, tmp_path) -> None:
    write_state(tmp_path, "state", torch.ones(2))
    (tmp_path / "state.json").write_text(json.dumps(structure), encoding="utf-8")
    with pytest.raises(ValueError, match="state: was edited"):
        read_state(tmp_path, "state")
