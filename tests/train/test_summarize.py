"""train_summarize: what it trains, what it leaves, what it refuses, and what a kill changes: nothing."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_summaries as tiny
import tiny_training
import torch
from peft import PeftModel
from transformers import AutoModelForSeq2SeqLM
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss

from unbottle.hf.pretrained import prefix_of
from unbottle.train import SUMMARIZE_PRESETS, SummarizeTrainingArguments, train_summarize
from unbottle.train.modes import FrozenBackbone

SCRIPT = Path(__file__).with_name("killed_summaries.py")


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def mean_loss(model, data) -> float:
    """Of every token of every summary, one pair at a time, without padding."""
    losses = []
    with torch.no_grad():
        for pair in data:
            labels = pair["labels"]
            scores = model.eval()(input_ids=pair["input_ids"][None], labels=labels[None]).logits.log_softmax(-1)
            losses += (-scores[0].gather(-1, labels[:, None])).flatten().tolist()
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    ("name", "method", "train"),
    [
        ("t5", None, "all"), ("t5", "s+cepr:20+mi", "all"), ("bart", "ps", "head"), ("bart", "s+ce", "lora"),
    ],
)  # fmt: skip
def test_it_trains_and_saves(name: str, method: str | None, train: str, tmp_path) -> None:
    """Padding never enters a loss: that of all pairs in batches is that of each pair alone."""
    model, valid = tiny.model(name, method), tiny.pairs(7, 1)
    before, at_first = weights(model), mean_loss(model, valid)
    result = train_summarize(
        model, tiny.pairs(), valid, tiny.settings(tmp_path, train=train, eval_every=4), tokenizer=tiny.tokenizer()
    )
    assert result.valid_losses[0] == (0, pytest.approx(at_first, abs=1e-5))
    assert [step for step, _ in result.valid_losses] == [0, 4, 8]
    assert result.valid_losses[-1][1] < at_first
    assert (result.steps, result.folder) == (8, str(tmp_path / "model"))
    again = AutoModelForSeq2SeqLM.from_pretrained(result.folder)
    assert again.config.use_cache
    assert mean_loss(again, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)
    changed = {key for key, value in weights(again).items() if not torch.equal(value, before[key])}
    if train == "head":
        assert changed
        assert all(key.startswith("head.") for key in changed)
    if train == "lora":
        assert any(key.startswith("head.") for key in changed)
        adapted = PeftModel.from_pretrained(tiny.model(name, method), str(tmp_path / "adapter"))
        assert mean_loss(adapted, valid) == pytest.approx(result.valid_losses[-1][1], abs=1e-5)


def test_padding_and_the_size_of_batches_change_nothing(tmp_path) -> None:
    """A step of 8 pairs is one of 2, 2, 2 and 2: each token counts alike, for a head; padding does not count."""
    losses = []
    for number, (batch, accumulate) in enumerate([(8, 1), (2, 4)]):
        model = tiny.model("bart", "s+cepr:20", dropout=0.0)
        sizes = {"batch": batch, "accumulate": accumulate, "max_steps": 3, "log_every": 1, "shuffle": False}
        chosen = tiny.settings(tmp_path / str(number), **sizes, save_every=None)
        losses.append(train_summarize(model, tiny.pairs(), None, chosen).losses)
    assert np.allclose(losses[0], losses[1], atol=1e-5)


@pytest.mark.parametrize("train", ["all", "head"])
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_the_loss_is_the_mean_over_all_labels(name: str, train: str, tmp_path) -> None:
    model, pairs = tiny.model(name, "s+cepr:20", dropout=0.0), tiny.pairs(4)
    expected = mean_loss(model, pairs)
    chosen = tiny.settings(tmp_path, train=train, batch=4, max_steps=1, log_every=1, save_every=None)
    assert train_summarize(model, pairs, None, chosen).losses == ((1, pytest.approx(expected, abs=1e-4)),)


@pytest.mark.parametrize("name", ["t5", "bart", "gpt2"])
def test_a_frozen_backbone_shifts_labels_as_its_model_does(name: str) -> None:
    """Some versions of the Trainer look at the loss type alone to tell which labels are predicted."""
    model = tiny_training.model() if name == "gpt2" else tiny.model(name)
    shifts = LOSS_MAPPING.get(FrozenBackbone(model).loss_type) is ForCausalLMLoss
    assert shifts == (name == "gpt2")


def test_plain_models_average_over_batches(tmp_path) -> None:
    """They pass num_items_in_batch over; the gradient of two batches is their mean all the same, not their sum."""
    sizes = {"max_steps": 1, "log_every": 1, "shuffle": False, "save_every": None, "batch": 4}
    found = []
    for accumulate in (1, 2):
        model = tiny.model("t5", None, dropout=0.0)
        once, folder = [*tiny.pairs(4)] * 2, tmp_path / str(accumulate)
        chosen = tiny.settings(
            folder, **sizes | {"accumulate": accumulate}, clip=0.0, eps=1.0, lr=1.0
        )  # eps: not normalised
        before = weights(model)
        losses = train_summarize(model, once, None, chosen).losses
        moved = {name: value - before[name] for name, value in weights(model).items()}
        found.append((losses, moved["shared.weight"].double()))
    assert np.allclose(found[0][0], found[1][0], atol=1e-5)
    assert found[0][1].norm() > 1e-2
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-2, atol=1e-5)


def test_the_prefix_is_kept(tmp_path) -> None:
    model, pairs = tiny.model("t5", "s+ce"), tiny.pairs(prefix="summarize : ")
    result = train_summarize(model, pairs, None, tiny.settings(tmp_path, max_steps=1))
    assert prefix_of(AutoModelForSeq2SeqLM.from_pretrained(result.folder)) == "summarize : "


# -- killed

OPTIONS = {"accumulate": 2, "eval_every": 3, "epochs": 1.2, "max_steps": None, "head_lr": 2.0}
KILLS = {  # model, options, where it is killed
    "unbroken": ("bart", OPTIONS, []),
    "killed": ("bart", OPTIONS, [("write", 4)]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    jobs, folders, codes = [], {}, []
    for name, (model, options, kills) in KILLS.items():
        folders[name] = tmp_path_factory.mktemp("run")
        job = {"folder": str(folders[name]), "model": model, "options": options}
        jobs += [job | {"where": where, "count": count} for where, count in [*kills, (None, 0)]]
        codes += [*[-signal.SIGKILL] * len(kills), 0]
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], input=json.dumps(jobs), capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert json.loads(done.stdout) == codes
    return folders


def test_killed_and_resumed(runs: dict[str, Path]) -> None:
    """Same weights, same losses, bit for bit."""
    folders = runs["killed"], runs["unbroken"]
    found, wanted = ((folder / "model" / "model.safetensors").read_bytes() for folder in folders)
    assert found == wanted
    results = [json.loads((folder / "answer.json").read_text()) for folder in folders]
    for key in ("steps", "losses", "valid_losses", "tokens"):
        assert results[0][key] == results[1][key], key
    assert results[0]["steps"] == 6
    assert len(results[0]["valid_losses"]) == 3


# -- refusals


def test_presets_are_the_paper() -> None:
    paper = SummarizeTrainingArguments(output_dir="x", **SUMMARIZE_PRESETS["paper"])
    assert (paper.learning_rate, paper.lr_scheduler_type, paper.warmup_steps) == (5e-5, "linear", 1000)
    assert paper.batch_size == 8
    assert (paper.adam_epsilon, paper.weight_decay, paper.num_train_epochs) == (1e-6, 1.2e-6, 3.0)
    assert (paper.max_source_length, paper.max_target_length, paper.max_grad_norm) == (1024, 128, 1.0)
    assert SUMMARIZE_PRESETS["paper-booksum"] == {"num_train_epochs": 5.0}
    assert SUMMARIZE_PRESETS["paper-booksum-bart-large"] == {"num_train_epochs": 5.0, "learning_rate": 1e-5}


def test_models_and_pairs_that_do_not_fit(tmp_path) -> None:
    long = tiny.rows(3).map(lambda row: {"document": "the king " * 20})
    many = tiny.Pairs(long, tiny.tokenizer(), source_length=40)
    wordy = tiny.Pairs([{"document": "Anna", "summary": "the king " * 20}], tiny.tokenizer())
    small = tiny.model("t5", None)
    small.resize_token_embeddings(9)
    cases = [
        (tiny_training.model(), tiny.pairs(), {}, "GPT2LMHeadModel is a causal language model; an encoder-decoder"),
        (tiny.model("t5", None), tiny.pairs(), {"train": "head"}, "train_mode 'head': this model has no head"),
        (tiny.model("bart"), many, {"source_length": 40}, "max_source_length 40: a document has 40 tokens, .* 32"),
        (tiny.model("bart"), wordy, {"target_length": 41}, "max_target_length 41: a summary has 41 tokens, .* 32"),
        (small, tiny.pairs(), {}, r"has token \d+, and the vocabulary of the model has 9"),
        (tiny.model(), [], {}, "nothing to train on: no pair"),
        (tiny.model(), iter([]), {}, "the pairs are a stream"),
    ]
    for number, (model, data, changes, message) in enumerate(cases):
        with pytest.raises(ValueError, match=message):
            train_summarize(model, data, None, tiny.settings(tmp_path / str(number), **changes))
    with pytest.raises(ValueError, match="output_dir is empty"):
        train_summarize(tiny.model(), tiny.pairs(), None, tiny.settings(""))
    with pytest.raises(ValueError, match=r"max_source_length 1: give a number of at least 2\."):
        tiny.settings(tmp_path, source_length=1)


def test_other_pairs_and_a_loss_that_is_no_number(tmp_path) -> None:
    train_summarize(tiny.model(), tiny.pairs(), None, tiny.settings(tmp_path / "one", max_steps=1))
    with pytest.raises(ValueError, match="other settings: data train was"):
        train_summarize(tiny.model(), tiny.pairs(seed=1), None, tiny.settings(tmp_path / "one", max_steps=1))
    model = tiny.model("t5", None)
    with torch.no_grad():
        model.decoder.final_layer_norm.weight.fill_(math.nan)
    with pytest.raises(ValueError, match=r"loss is NaN at step 1, on rows .* lower learning_rate"):
        train_summarize(model, tiny.pairs(), None, tiny.settings(tmp_path / "two"))
