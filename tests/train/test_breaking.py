"""A loss, a gradient or weights that break stop a training, and say where."""

from __future__ import annotations

import json
import math

import pytest
import tiny_training as tiny
import torch

from unbottle.data import StreamedWindows
from unbottle.train import train_lm
from unbottle.train.checkpoints import latest
from unbottle.train.divergence import DivergenceMonitor
from unbottle.train.trainer import HeadTrainer


def breaking(monkeypatch: pytest.MonkeyPatch, at: int, value: float) -> None:
    """The loss of the batch number `at` becomes `value`, and its gradient with it."""
    calls, original = [], HeadTrainer.compute_loss

    def compute_loss(self, *args, **options):
        calls.append(1)
        loss = original(self, *args, **options)
        return loss * (value if len(calls) == at else 1.0)

    monkeypatch.setattr(HeadTrainer, "compute_loss", compute_loss)


@pytest.mark.parametrize(("value", "problem"), [(math.nan, "loss is NaN"), (1e4, r"loss exploded \([\d.e+]+\)")])
def test_a_loss_that_breaks_names_its_step_and_batch(value, problem, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tenth batch, the second of step 5, after the checkpoint of step 4."""
    breaking(monkeypatch, 10, value)
    order = []
    monkeypatch.setattr(DivergenceMonitor, "check_batch", watched(order, DivergenceMonitor.check_batch))
    with pytest.raises(ValueError, match=rf"^{problem} at step 5, on rows .* checkpoint-4 is kept\.$") as stop:
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path, accumulate=2, shuffle=True))
    found = json.loads((tmp_path / "bad-batch.json").read_text())
    assert found["step"] == 5
    (batch,) = found["batches"]
    assert batch["rows"] == order[9]
    assert f"on rows {', '.join(map(str, order[9]))} of the data (see {tmp_path / 'bad-batch.json'})" in str(stop.value)
    assert batch["input_ids"] == [tiny.windows()[row]["input_ids"].tolist() for row in batch["rows"]]
    assert latest(tmp_path / "checkpoints").name == "checkpoint-4"


def watched(order: list, original):
    def batch(self, step, inputs):
        original(self, step, inputs)
        order.append(self.batches[-1][0])

    return batch


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_gradient_that_is_no_number(clip: float, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is fine: what breaks on the way back stops before the optimizer takes its step."""
    calls, original, model = [], HeadTrainer.compute_loss, tiny.model()

    def compute_loss(self, *args, **options):
        calls.append(1)
        loss = original(self, *args, **options)
        if len(calls) == 3:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return loss

    monkeypatch.setattr(HeadTrainer, "compute_loss", compute_loss)
    with pytest.raises(ValueError, match=r"^gradient norm is (NaN|inf) at step 3, on rows .*checkpoint-2 is kept"):
        train_lm(model, tiny.windows(), None, tiny.settings(tmp_path, clip=clip))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_weights_that_are_no_numbers_never_get_into_a_checkpoint(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, step = tiny.model(), [], torch.optim.AdamW.step

    def broken_step(self, *args, **options):
        step(self, *args, **options)
        calls.append(1)
        if len(calls) == 4:
            with torch.no_grad():
                model.head.L["V"].weight[0, 0] = math.inf

    monkeypatch.setattr(torch.optim.AdamW, "step", broken_step)
    with pytest.raises(ValueError, match=r"^weights of head\.L\.V\.weight are not finite at step 4, .*-2 is kept"):
        train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-2"]


def test_a_stream_names_its_rows_after_a_break_too(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [{"text": "the king and the queen met the man and the woman, " * 9}]

    def run():
        return train_lm(tiny.model(), StreamedWindows(text, tiny.Letters(), tiny.LENGTH), None, tiny.settings(tmp_path))

    monkeypatch.setattr("unbottle.train.trainer.rotate", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()
    monkeypatch.undo()
    breaking(monkeypatch, 1, math.nan)
    with pytest.raises(ValueError, match="at step 3, on rows 8, 9, 10, 11 of the data"):
        run()
