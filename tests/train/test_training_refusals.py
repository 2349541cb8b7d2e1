"""train_lm: settings, models, texts and folders that it refuses."""

from __future__ import annotations

import math

import pytest
import tiny_training as tiny
from transformers import T5Config, T5ForConditionalGeneration

from unbottle.data import StreamedWindows, Windows
from unbottle.files import folder_lock
from unbottle.train import PRESETS, LMTrainingArguments, Settings, train_lm


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "tail"}, "train_mode 'tail': unknown. Known: all, head, lora."),
        ({"schedule": "zigzag"}, "schedule 'zigzag': unknown. Known: constant, linear, cosine."),
        ({"precision": "int8"}, "precision 'int8': unknown. Known: float32, bfloat16, float16."),
        ({"batch": 0}, "batch_size 0: give a number of at least 1."),
        ({"lr": 0.0}, "learning_rate 0.0: give a number above 0."),
        ({"epochs": math.nan}, "num_train_epochs nan: give a number above 0."),
    ],
)
def test_settings_refuse(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        Settings(output="x", **changes)


def test_presets_are_the_paper() -> None:
    paper = LMTrainingArguments(output_dir="x", **PRESETS["paper"])
    assert (paper.window_length, paper.batch_size, paper.learning_rate) == (200, 4, 1e-5)
    assert (paper.adam_epsilon, paper.weight_decay) == (1e-6, 1.2e-6)
    assert (paper.num_train_epochs, paper.max_grad_norm) == (1.0, 0.25)
    assert PRESETS["paper-medium"]["num_train_epochs"] == 0.4


def test_other_settings_other_model_other_text(tmp_path) -> None:
    def run(model=None, train=None, **changes):
        return train_lm(model or tiny.model(), train or tiny.windows(), None, tiny.settings(tmp_path, **changes))

    run()
    with pytest.raises(ValueError, match=r"holds a run with other settings: learning_rate was 0\.01 and is 0\.02 now"):
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
    stream = StreamedWindows([{"text": "short"}], tiny.Letters(), tiny.LENGTH)
    cases = [
        (t5, tiny.windows(), {}, "is an encoder-decoder model; a causal language model is needed"),
        (tiny.model(None), tiny.windows(), {"train": "head"}, "train_mode 'head': this model has no head"),
        (tiny.model(), Windows(tiny.tokens(99), 33), {}, "window_length 33: GPT2LMHeadModel reads at most 32 tokens"),
        (tiny.model(), Windows(tiny.tokens(99) + 50, 9), {}, r"has token \d+, and the vocabulary of the model has 90"),
        (tiny.model(), [], {}, "nothing to train on"),
        (tiny.model(), stream, {"max_steps": None}, "a stream, whose end is not known: give max_steps"),
        (tiny.model(), stream, {}, "the text is shorter than a window of 12 tokens"),
    ]
    for number, (model, data, changes, message) in enumerate(cases):
        with pytest.raises(ValueError, match=message):
            train_lm(model, data, None, tiny.settings(tmp_path / str(number), **changes))
    with pytest.raises(ValueError, match="output_dir is empty"):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(""))


def test_one_process_at_a_time(tmp_path) -> None:
    with folder_lock(tmp_path), pytest.raises(ValueError, match=r"is in use by process \d+\. Wait until"):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(tmp_path))
