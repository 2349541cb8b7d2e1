"""train_lm: what it trains, and what it leaves."""

from __future__ import annotations

import pytest
import tiny_training as tiny
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from unbottle.data import StreamedWindows, Windows
from unbottle.hf import attach
from unbottle.train import train_lm


def mean_loss(model, data) -> float:
    """Of every token after the first of its window, by hand."""
    losses = []
    with torch.no_grad():
        for window in data:
            ids = window["input_ids"][None]
            scores = model.eval()(ids).logits.log_softmax(-1)
            losses += [-scores[0, place, ids[0, place + 1]].item() for place in range(ids.shape[1] - 1)]
    return sum(losses) / len(losses)


@pytest.mark.parametrize("method", [None, "softmax+cpr:5,20+mi"])
def test_it_trains_and_saves(method: str | None, tmp_path) -> None:
    model, valid = tiny.model(method), tiny.windows(101, 1)
    before = mean_loss(model, valid)
    told = []
    result = train_lm(
        model,
        tiny.windows(),
        valid,
        tiny.settings(tmp_path, report_to=None, eval_every=4),
        report=lambda *a: told.append(a),
    )
    assert result.valid_losses[0] == (0, pytest.approx(before, abs=1e-5))
    assert result.valid_losses[-1] == (8, pytest.approx(mean_loss(model, valid), abs=1e-5))
    assert [step for step, _ in result.valid_losses] == [0, 4, 8]
    assert [step for step, _ in result.losses] == [3, 6]
    assert (result.steps, result.tokens, result.folder) == (8, 8 * 4 * tiny.LENGTH, str(tmp_path / "model"))
    again = AutoModelForCausalLM.from_pretrained(result.folder)
    assert tiny.same(tiny.weights(again), tiny.weights(model))
    assert again.config.use_cache
    assert told[-1][:2] == (8, 8)
    assert "loss" in told[-1][2]
    assert "tokens/s" in told[-1][2]
    assert [*tmp_path.glob("logs/events*")]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["checkpoint-6", "checkpoint-8"]
    assert not [*tmp_path.glob(".*writing*")]


def test_learning_rate_of_the_head(tmp_path) -> None:
    """One step of AdamW moves a weight by at most its learning rate."""
    model = tiny.model("softmax+c")
    before = tiny.weights(model)
    train_lm(model, tiny.windows(), None, tiny.settings(tmp_path, max_steps=1, lr=1e-3, head_lr=5.0))
    moved = {name: (value - before[name]).abs().max().item() for name, value in model.state_dict().items()}
    assert moved["head.L.V.weight"] == pytest.approx(5e-3, rel=0.01)
    assert moved["transformer.h.0.mlp.c_fc.weight"] == pytest.approx(1e-3, rel=0.01)


def test_adapters(tmp_path) -> None:
    model, valid = tiny.model(), tiny.windows(101, 1)
    before = tiny.weights(model)
    result = train_lm(model, tiny.windows(), valid, tiny.settings(tmp_path, train="lora", lora_rank=2))
    merged = AutoModelForCausalLM.from_pretrained(result.folder)
    assert mean_loss(merged, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)
    changed = {name for name, value in tiny.weights(merged).items() if not torch.equal(value, before[name])}
    assert {name.split(".")[0] for name in changed} == {"head", "transformer"}
    assert "transformer.wte.weight" not in changed
    adapted = PeftModel.from_pretrained(tiny.model(), str(tmp_path / "adapter"))
    assert mean_loss(adapted, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)
    assert mean_loss(model, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)


@pytest.mark.parametrize("train", ["all", "head"])
def test_a_stream_goes_on_after_a_break(train: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [{"text": "the king and the queen"}, {"text": " met the man and the woman, " * 9}]

    def run(name: str, model, **options):
        data = StreamedWindows(texts, tiny.Letters(), tiny.LENGTH)
        return train_lm(model, data, None, tiny.settings(tmp_path / name, train=train, **options))

    model = tiny.model()
    whole = run("whole", model)
    calls = []
    monkeypatch.setattr("unbottle.train.trainer.rotate", lambda *args: calls.append(1 / (len(calls) < 3)))
    with pytest.raises(ZeroDivisionError):
        run("broken", tiny.model())
    monkeypatch.undo()
    resumed = tiny.model()
    assert run("broken", resumed).losses == whole.losses
    assert tiny.same(tiny.weights(resumed), tiny.weights(model))


def test_the_head_must_be_reached(tmp_path) -> None:
    from unbottle.hf.integrations.guards import BypassedHeadError

    model = attach(tiny.model(None), "softmax+c")
    model.head.requires_grad_(False)
    with pytest.raises(BypassedHeadError, match="every parameter of the head is frozen"):
        train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))


def test_the_order_of_windows(tmp_path) -> None:
    """Shuffled by the seed, or as they stand."""

    class Watched(Windows):
        def __getitem__(self, place: int):
            seen.append(place)
            return super().__getitem__(place)

    orders = []
    for number, changes in enumerate([{"shuffle": False}, {"seed": 1}, {"seed": 1, "lr": 1e-3}, {"seed": 2}]):
        seen: list[int] = []
        data = Watched(tiny.tokens(150), tiny.LENGTH)
        train_lm(tiny.model(None), data, None, tiny.settings(tmp_path / str(number), max_steps=None, **changes))
        orders.append(seen)
    assert orders[0] == [*range(13)]
    assert orders[1] == orders[2]
    assert sorted(orders[1]) == sorted(orders[3]) == [*range(13)]
    assert len({tuple(order) for order in orders}) == 3
