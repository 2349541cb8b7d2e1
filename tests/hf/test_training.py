"""Trainer and Seq2SeqTrainer train a model with a head as they train any other."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch
from datasets import Dataset
from models import shaken, tiny, words
from trainers import collate, rows, trainer, without_dropout
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments

from unbottle.hf import attach

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'unbottle[train]'")

CASES = [
    ("gpt2", "softmax+cpr:5,20+mi"),
    ("llama", "ps+mi"),
    ("llama", "mos"),
    ("t5", "s+cepr:20+mi"),
    ("bart", "s+cepr:20+mi:2x2"),
]
METHODS = pytest.mark.parametrize(("name", "method"), CASES, ids=[f"{name}-{method}" for name, method in CASES])


def attached(name: str, method: str):
    """The same model every time: L^h starts at random."""
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


def all_rows(model) -> dict[str, torch.Tensor]:
    return collate(model, rows(encoder_decoder=model.config.is_encoder_decoder))


def by_hand(model, *, smoothing: float = 0.0) -> torch.Tensor:
    """Mean over the labels of (1 - s) nll + s (mean over the vocabulary of -log P), written out."""
    batch = all_rows(model)
    labels = batch.pop("labels")
    log_probs = model(**batch).logits.log_softmax(-1)
    if not model.config.is_encoder_decoder:
        log_probs, labels = log_probs[:, :-1], labels[:, 1:]
    losses = [
        -(1 - smoothing) * log_probs[row, place, label] - smoothing * log_probs[row, place].mean()
        for row in range(labels.shape[0])
        for place, label in enumerate(labels[row].tolist())
        if label != -100
    ]
    return torch.stack(losses).mean()


@functools.cache
def step_by_hand(name: str, method: str, smoothing: float = 0.0) -> tuple[float, dict[str, torch.Tensor]]:
    """One step of gradient descent, of size 1: the loss before it and the weights after it."""
    model = without_dropout(attached(name, method)).train()
    loss = by_hand(model, smoothing=smoothing)
    loss.backward()
    return loss.item(), {name: (p - p.grad).detach() for name, p in model.named_parameters() if p.grad is not None}


def assert_step(name: str, method: str, folder, *, smoothing: float = 0.0, **options) -> None:
    want_loss, want = step_by_hand(name, method, smoothing)
    made = trainer(attached(name, method), folder, label_smoothing_factor=smoothing, **options)
    made.train()
    assert made.state.log_history[0]["loss"] == pytest.approx(want_loss, abs=1e-4)
    now = dict(made.model.named_parameters())
    for key, value in want.items():
        difference = (now[key].detach() - value).abs().max().item()
        assert difference <= 1e-5, f"{key} differs by {difference} after the step"


@METHODS
@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_a_step_is_the_same_however_the_batch_is_cut(name, method, accumulate, tmp_path):
    cut = {"gradient_accumulation_steps": accumulate, "per_device_train_batch_size": 4 // accumulate}
    assert_step(name, method, tmp_path, **cut)


@METHODS
def test_label_smoothing_looks_at_the_next_word(name, method, tmp_path):
    assert_step(name, method, tmp_path, smoothing=0.2)


@pytest.mark.parametrize(("name", "method"), [("gpt2", "softmax+cpr:5,20+mi"), ("t5", "s+cepr:20+mi")])
def test_a_resumed_training_ends_where_an_unbroken_one_ends(name, method, tmp_path):
    schedule = {"optim": "adamw_torch", "learning_rate": 1e-2, "max_steps": 4, "per_device_train_batch_size": 2}
    unbroken = trainer(attached(name, method), tmp_path, save_strategy="steps", save_steps=2, **schedule)
    unbroken.train()
    resumed = trainer(attached(name, method), tmp_path, **schedule)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    before = attached(name, method).state_dict()
    for key, value in unbroken.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[key], value), key
        learns = key.startswith("head.") and key != "head.form"  # a mark, not a weight
        assert not learns or not torch.equal(before[key], value), f"{key} was not trained"


@pytest.mark.parametrize(("name", "method"), [("t5", "s+cepr:20+mi"), ("bart", "pg")])
def test_predict_with_generate(name, method, tmp_path):
    model = attached(name, method)
    made = trainer(model, tmp_path, predict_with_generate=True, generation_max_length=6, generation_num_beams=2)
    got = torch.tensor(made.predict(made.eval_dataset).predictions)
    batch = all_rows(model)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    assert torch.equal(got[:, :6], model.generate(ids, attention_mask=mask, max_length=6, num_beams=2))
    assert made.evaluate()["eval_loss"] == pytest.approx(by_hand(model).item(), abs=1e-4)


EVALUATED = [
    ("gpt2", "softmax+cpr:5,20+mi", False),
    ("llama", "mos", True),
    ("t5", "s+cepr:20+mi", False),
    ("bart", "ps+e", True),
]


def wrapped(name: str, method: str, lora: bool):
    """The model, or the model in PEFT's wrapper with a trainable head."""
    model = attached(name, method)
    if not lora:
        return model
    peft = pytest.importorskip("peft", reason="LoRA needs peft: pip install 'unbottle[train]'")
    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"
    return peft.get_peft_model(model, peft.LoraConfig(r=2, task_type=task, modules_to_save=["head"]))


@pytest.mark.parametrize(("name", "method", "lora"), EVALUATED)
def test_evaluate_returns_the_loss_and_the_metrics(name, method, lora, tmp_path):
    model = wrapped(name, method, lora)
    made = trainer(model, tmp_path, per_device_eval_batch_size=4)

    def count(prediction) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        assert logits.shape == (*prediction.label_ids.shape, model.config.vocab_size)
        return {"labels": float((prediction.label_ids != -100).sum())}

    made.compute_metrics = count
    metrics = made.evaluate()
    assert metrics["eval_loss"] == pytest.approx(by_hand(model).item(), abs=1e-4)
    assert metrics["eval_labels"] == (all_rows(model)["labels"] != -100).sum().item()


@pytest.mark.parametrize(("name", "method", "lora"), EVALUATED)
def test_the_best_model_is_loaded_when_training_stops_early(name, method, lora, tmp_path):
    """Gradient ascent: the second evaluation is worse than the first, so training stops there."""
    each_step = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_steps": 8}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": False}
    callbacks = [EarlyStoppingCallback(early_stopping_patience=1)]
    model = wrapped(name, method, lora)
    made = trainer(model, tmp_path, callbacks=callbacks, **each_step, **best)
    made.optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02, maximize=True)
    made.train()
    losses = [line["eval_loss"] for line in made.state.log_history if "eval_loss" in line]
    assert made.state.global_step == len(losses) == 2
    assert made.state.best_metric == losses[0] < losses[1]
    assert made.evaluate()["eval_loss"] == pytest.approx(losses[0], abs=1e-5), "the best weights, not the last"


@METHODS
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(name, method, reentrant):
    ids = words()
    gradients = []
    for checkpointing in (False, True):
        model = without_dropout(attached(name, method)).train()
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        gradients.append({key: p.grad for key, p in model.named_parameters()})
    plain, checkpointed = gradients
    for key, gradient in plain.items():
        assert (gradient is None) == (checkpointed[key] is None), key
        if gradient is not None:
            torch.testing.assert_close(checkpointed[key], gradient, atol=1e-6, rtol=1e-4)


@METHODS
def test_bf16_autocast_is_close_to_float32(name, method):
    model, ids = attached(name, method).train(), words()
    without_dropout(model)
    exact = model(input_ids=ids, labels=ids, use_cache=False).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(input_ids=ids, labels=ids, use_cache=False)
    outputs.loss.backward()
    assert outputs.loss.dtype == torch.float32
    assert outputs.loss.item() == pytest.approx(exact.item(), abs=0.05)
    for key, parameter in model.head.named_parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32, key
        assert parameter.grad.isfinite().all(), key


@pytest.mark.parametrize(("name", "method"), [("gpt2", "softmax+cpr:5,20+mi"), ("t5", "ps")])
def test_trainer_in_bf16_with_checkpointing(name, method, tmp_path):
    """accelerate wraps the forward of the model in autocast, and it stays the forward with the head."""
    made = trainer(attached(name, method), tmp_path, bf16=True, gradient_checkpointing=True)
    made.train()
    want, _ = step_by_hand(name, method)
    assert made.state.log_history[0]["loss"] == pytest.approx(want, abs=0.05)
    before = attached(name, method).head.state_dict()
    after = dict(made.model.head.named_parameters())
    still = {key for key, value in after.items() if torch.equal(before[key], value)}
    assert still <= {"L.LD.weight", "L.LD.bias", "L.LE.weight"}, "keys learn from the second step on"


@pytest.mark.parametrize("method", ["softmax+cpr:5,20+mi", "softmax+cki", "mos", "pg"])
def test_training_after_an_evaluation_in_inference_mode(method: str) -> None:
    """Memory that is lent again is no inference tensor, which autograd could not use."""
    model, ids = attached("llama", method), words()
    with torch.inference_mode():
        evaluated = model(ids, labels=ids, skip_logits=True).loss.item()
    loss = model.train()(ids, labels=ids).loss
    loss.backward()
    assert loss.item() == pytest.approx(evaluated, rel=1e-5)
    assert all(parameter.grad is not None for parameter in model.head.L["V"].parameters())


@pytest.mark.parametrize(("name", "column"), [("gpt2", "token_type_ids"), ("led", "global_attention_mask")])
def test_columns_that_only_the_plain_model_names(name: str, column: str, tmp_path) -> None:
    """The Trainer drops columns that are not in the signature of `forward`."""
    model = attached(name, "softmax+c")
    assert column in inspect.signature(model.forward).parameters
    batch = all_rows(model)
    given = batch | {column: words(*batch["input_ids"].shape, seed=2) % 2}
    data = Dataset.from_dict({key: value.tolist() for key, value in given.items()})
    options = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, per_device_eval_batch_size=len(data))
    want = model(**given).loss.item()
    assert want != model(**{key: value for key, value in given.items() if key != column}).loss.item()
    assert Trainer(model, options, eval_dataset=data).evaluate()["eval_loss"] == pytest.approx(want, rel=1e-5)
