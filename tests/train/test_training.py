"""train_lm: what it trains, what it leaves, what it refuses."""

from __future__ import annotations

import errno
import json
import math
import shutil
from pathlib import Path

import pytest
import tiny_training as tiny
import torch
from peft import PeftModel
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, T5Config, T5ForConditionalGeneration

from unbottle.data import StreamedWindows, Windows
from unbottle.hf import attach
from unbottle.train import PRESETS, Settings, plain_checkpoints, train_lm
from unbottle.train.checkpoints import latest, rotate, seal
from unbottle.train.files import whole_disk
from unbottle.train.folder import locked
from unbottle.train.plain_state import write_state
from unbottle.train.trainer import LanguageTrainer
from unbottle.train.watch import Watch


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


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
    assert same(weights(again), weights(model))
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
    before = weights(model)
    train_lm(model, tiny.windows(), None, tiny.settings(tmp_path, max_steps=1, lr=1e-3, head_lr=5.0))
    moved = {name: (value - before[name]).abs().max().item() for name, value in model.state_dict().items()}
    assert moved["head.L.V.weight"] == pytest.approx(5e-3, rel=0.01)
    assert moved["transformer.h.0.mlp.c_fc.weight"] == pytest.approx(1e-3, rel=0.01)


def test_adapters(tmp_path) -> None:
    model, valid = tiny.model(), tiny.windows(101, 1)
    before = weights(model)
    result = train_lm(model, tiny.windows(), valid, tiny.settings(tmp_path, train="lora", lora_rank=2))
    merged = AutoModelForCausalLM.from_pretrained(result.folder)
    assert mean_loss(merged, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)
    changed = {name for name, value in weights(merged).items() if not torch.equal(value, before[name])}
    assert {name.split(".")[0] for name in changed} == {"head", "transformer"}
    assert "transformer.wte.weight" not in changed
    adapted = PeftModel.from_pretrained(tiny.model(), str(tmp_path / "adapter"))
    assert mean_loss(adapted, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)
    assert mean_loss(model, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)


class Letters:
    """A tokenizer: every letter is a token."""

    def __call__(self, texts, **options):
        return {"input_ids": [[ord(letter) % tiny.VOCABULARY for letter in text] for text in texts]}


@pytest.mark.parametrize("train", ["all", "head"])
def test_a_stream_goes_on_after_a_break(train: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [{"text": "the king and the queen"}, {"text": " met the man and the woman, " * 9}]

    def run(name: str, model, **options):
        data = StreamedWindows(texts, Letters(), tiny.LENGTH)
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
    assert same(weights(resumed), weights(model))


# -- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "tail"}, "train 'tail': unknown. Known: all, head, lora."),
        ({"schedule": "zigzag"}, "schedule 'zigzag': unknown. Known: constant, linear, cosine."),
        ({"precision": "int8"}, "precision 'int8': unknown. Known: float32, bfloat16, float16."),
        ({"batch": 0}, "batch 0: give a number of at least 1."),
        ({"lr": 0.0}, "lr 0.0: give a number above 0."),
        ({"epochs": math.nan}, "epochs nan: give a number above 0."),
    ],
)
def test_settings_refuse(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        Settings(output="x", **changes)


def test_presets_are_the_paper() -> None:
    paper = PRESETS["paper"]
    found = (paper.length, paper.batch, paper.lr, paper.eps, paper.weight_decay, paper.epochs, paper.clip)
    assert found == (200, 4, 1e-5, 1e-6, 1.2e-6, 1.0, 0.25)
    assert PRESETS["paper-medium"].epochs == 0.4


def test_other_settings_other_model_other_text(tmp_path) -> None:
    def run(model=None, train=None, **changes):
        return train_lm(model or tiny.model(), train or tiny.windows(), None, tiny.settings(tmp_path, **changes))

    run()
    with pytest.raises(ValueError, match=r"holds a run with other settings: lr was 0\.01 and is 0\.02 now"):
        run(lr=0.02)
    with pytest.raises(ValueError, match="other settings: model weights was"):
        run(tiny.model(seed=1))
    with pytest.raises(ValueError, match=r"other settings: model head was 'softmax\+cpr:5,20\+mi' and is 'softmax\+c'"):
        run(tiny.model("softmax+c"))
    with pytest.raises(ValueError, match="other settings: data train was"):
        run(train=tiny.windows(seed=1))
    assert run(keep=5, report_to=("tensorboard",), save_every=3).steps == 8


def test_models_and_texts_that_do_not_fit(tmp_path) -> None:
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=90, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2))
    stream = StreamedWindows([{"text": "short"}], Letters(), tiny.LENGTH)
    cases = [
        (t5, tiny.windows(), {}, "is an encoder-decoder model; a causal language model is needed"),
        (tiny.model(None), tiny.windows(), {"train": "head"}, "train 'head': this model has no head"),
        (tiny.model(), Windows(tiny.tokens(99), 33), {}, "length 33: GPT2LMHeadModel reads at most 32 tokens"),
        (tiny.model(), Windows(tiny.tokens(99) + 50, 9), {}, r"has the token \d+, and the model knows 90"),
        (tiny.model(), [], {}, "nothing to train on"),
        (tiny.model(), stream, {"max_steps": None}, "a stream, whose end is not known: give max_steps"),
        (tiny.model(), stream, {}, "the text is shorter than a window of 12 tokens"),
    ]
    for number, (model, data, changes, message) in enumerate(cases):
        with pytest.raises(ValueError, match=message):
            train_lm(model, data, None, tiny.settings(tmp_path / str(number), **changes))
    with pytest.raises(ValueError, match="output is empty"):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(""))


def test_one_process_at_a_time(tmp_path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match=r"another process \(\d+\) works in this folder"):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))


def breaking(monkeypatch: pytest.MonkeyPatch, at: int, value: float) -> None:
    """The loss of the batch number `at` becomes `value`, and its gradient with it."""
    calls, original = [], LanguageTrainer.compute_loss

    def compute_loss(self, *args, **options):
        calls.append(1)
        loss = original(self, *args, **options)
        return loss * (value if len(calls) == at else 1.0)

    monkeypatch.setattr(LanguageTrainer, "compute_loss", compute_loss)


@pytest.mark.parametrize(
    ("value", "problem"), [(math.nan, r"the loss is no number \(nan\)"), (1e4, r"the loss exploded \([\d.e+]+\)")]
)
def test_a_loss_that_breaks_names_its_step_and_batch(value, problem, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tenth batch, the second of step 5, after the checkpoint of step 4."""
    breaking(monkeypatch, 10, value)
    order = []
    monkeypatch.setattr(Watch, "batch", watched(order, Watch.batch))
    with pytest.raises(
        ValueError, match=rf"^{problem} at step 5, on rows .* checkpoint-4 from before is kept\.$"
    ) as stop:
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path, accumulate=2, shuffle=True))
    found = json.loads((tmp_path / "bad-batch.json").read_text())
    assert found["step"] == 5
    (batch,) = found["batches"]
    assert batch["rows"] == order[9]
    assert f"on rows {', '.join(map(str, order[9]))} of the data ({tmp_path / 'bad-batch.json'} holds" in str(
        stop.value
    )
    assert batch["input_ids"] == [tiny.windows()[row]["input_ids"].tolist() for row in batch["rows"]]
    assert latest(tmp_path / "checkpoints").name == "checkpoint-4"


def watched(order: list, original):
    def batch(self, step, inputs):
        original(self, step, inputs)
        order.append(self.batches[-1]["rows"])

    return batch


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_gradient_that_is_no_number(clip: float, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is fine: what breaks on the way back stops before the optimizer takes its step."""
    calls, original, model = [], LanguageTrainer.compute_loss, tiny.model()

    def compute_loss(self, *args, **options):
        calls.append(1)
        loss = original(self, *args, **options)
        if len(calls) == 3:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return loss

    monkeypatch.setattr(LanguageTrainer, "compute_loss", compute_loss)
    with pytest.raises(
        ValueError, match=r"^the norm of the gradient is (nan|inf) at step 3, on rows .*checkpoint-2 from"
    ):
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
    with pytest.raises(
        ValueError, match=r"^the weights of head\.L\.V\.weight are no numbers any more at step 4, .*-2 from"
    ):
        train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-2"]


def test_a_stream_names_its_rows_after_a_break_too(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [{"text": "the king and the queen met the man and the woman, " * 9}]

    def run():
        return train_lm(tiny.model(), StreamedWindows(text, Letters(), tiny.LENGTH), None, tiny.settings(tmp_path))

    monkeypatch.setattr("unbottle.train.trainer.rotate", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()
    monkeypatch.undo()
    breaking(monkeypatch, 1, math.nan)
    with pytest.raises(ValueError, match="at step 3, on rows 8, 9, 10, 11 of the data"):
        run()


# -- checkpoints


FULL = [  # as they were seen on a disk that was full
    OSError(errno.ENOSPC, "No space left on device"),
    RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"),
    RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 26688 vs 26576"),
    RuntimeError("basic_ios::clear: iostream error"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
]
FULL_SENTENCE = r"^the disk of .* is full\. What was written before is complete: make room .* it goes on from there\.$"


@pytest.mark.parametrize("error", FULL, ids=str)
def test_a_full_disk_is_one_sentence(error: Exception, tmp_path) -> None:
    with pytest.raises(OSError, match=FULL_SENTENCE) as found, whole_disk(tmp_path):
        raise error
    assert found.value.errno == errno.ENOSPC


def test_other_errors_stay_what_they_are(tmp_path) -> None:
    for error in (RuntimeError("shapes differ"), PermissionError(errno.EACCES, "not yours")):
        with pytest.raises(type(error)) as found, whole_disk(tmp_path):
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

    monkeypatch.setattr(plain_checkpoints, "write_state", write)
    with pytest.raises(OSError, match=FULL_SENTENCE):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-2"]
    assert not [*(tmp_path / ".writing").iterdir()]
    monkeypatch.undo()
    model, other = tiny.model(), tiny.model()
    result = train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert result.losses == train_lm(other, tiny.windows(), None, tiny.settings(tmp_path / "whole")).losses
    assert same(weights(model), weights(other))


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
        match=r"^damaged: .*checkpoint-8 \(optimizer.safetensors has \d+ bytes, not \d+\)\. Delete it to go on from "
        r"checkpoint-6, which is whole, and run the same command again\.$",
    ):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))
    shutil.rmtree(last)
    result = train_lm(model, tiny.windows(), None, tiny.settings(tmp_path))
    assert result.steps == 8
    assert same(weights(model), weights(other))


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("a.pt", "cut", "a.pt has 10 bytes, not 20"),
        ("a.pt", "changed", "a.pt was damaged"),
        ("a.pt", "missing", "a.pt is missing"),
        ("manifest.json", "missing", "manifest.json is missing"),
        ("manifest.json", "cut", "manifest.json can not be read"),
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
    with pytest.raises(ValueError, match=rf"checkpoint-10 \({problem}\)\. Delete it to go on from checkpoint-9, which"):
        latest(tmp_path)
    rotate(tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-extra", "writing"]
    with pytest.raises(ValueError, match=r"Delete it to start from the beginning, and run the same command again\."):
        latest(tmp_path)


def test_the_head_must_be_reached(tmp_path) -> None:
    from unbottle.hf.guards import BypassedHeadError

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
