"""Presets and short names of training arguments, as data: nothing here imports torch or transformers.

A preset is a dict of arguments of `unbottle.train.arguments`. `Settings` and `SummarizeSettings` spell the commonest
arguments with short names; experiments store them in this form, and so did run folders of earlier versions.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbottle.train.arguments import HeadTrainingArguments, LMTrainingArguments, SummarizeTrainingArguments

NEVER = 10**9  # steps between two things of which the first and the last are enough
TINY = 1e-12  # adam_epsilon: projections that start at 1e-10 have gradients far below the paper's 1e-6 (LOG.md)
LARGEST_SEED = 2**32 - 1  # NumPy's limit

Values = dict[str, object]  # arguments by name

# Beside the paper's, presets are ours. "head": a new output layer on a frozen backbone, where larger steps are safe;
# "lora": adapters in the backbone and the full head; "scratch": a small model from random weights.
_WARM: Values = {"adam_epsilon": TINY, "warmup_steps": 20}
_SCRATCH: Values = {
    "batch_size": 16, "learning_rate": 1e-3, "adam_epsilon": TINY, "weight_decay": 0.1, "max_grad_norm": 1.0,
    "lr_scheduler_type": "cosine", "warmup_steps": 100,
}  # fmt: skip
_HEAD: Values = {"train_mode": "head", "batch_size": 8, "max_grad_norm": 1.0, **_WARM}
_LORA: Values = {"train_mode": "lora", "batch_size": 8, "max_grad_norm": 1.0, "learning_rate": 2e-4, **_WARM}
_CONSTANT: Values = {"lr_scheduler_type": "constant_with_warmup"}
PRESETS: dict[str, Values] = {
    "paper": {},  # GPT-2 small, one epoch: the defaults of LMTrainingArguments
    "paper-medium": {"num_train_epochs": 0.4},  # GPT-2 medium
    "head": {**_HEAD, "learning_rate": 1e-3, "num_train_epochs": 3.0},
    "lora": _LORA,
    "scratch": {**_SCRATCH, "num_train_epochs": 5.0},
}
SUMMARIZE_PRESETS: dict[str, Values] = {
    "paper": {},  # T5 and BART on CNN/DM, XSUM and SAMSum: the defaults of SummarizeTrainingArguments
    "paper-booksum": {"num_train_epochs": 5.0},  # paragraphs
    "paper-booksum-bart-large": {"num_train_epochs": 5.0, "learning_rate": 1e-5},  # larger was not always stable
    "head": {**_HEAD, **_CONSTANT, "learning_rate": 1e-3},
    "lora": {**_LORA, **_CONSTANT},
    "scratch": {**_SCRATCH, "num_train_epochs": 10.0},
}

SHORT_NAMES = {  # of arguments; accepted on the command line, in files, and in the records of earlier versions
    "output": "output_dir", "train": "train_mode", "length": "window_length", "source_length": "max_source_length",
    "target_length": "max_target_length", "prefix": "source_prefix", "batch": "batch_size", "lr": "learning_rate",
    "accumulate": "gradient_accumulation_steps", "head_lr": "head_lr_multiplier", "eps": "adam_epsilon",
    "clip": "max_grad_norm", "schedule": "lr_scheduler_type", "epochs": "num_train_epochs", "lora_rank": "lora_r",
    "states": "hidden_states_dir", "states_dtype": "hidden_states_dtype", "log_every": "logging_steps",
    "eval_every": "eval_steps", "save_every": "save_steps", "keep": "save_total_limit",
}  # fmt: skip
CHOICES = {
    "train_mode": ("all", "head", "lora"),
    "hidden_states_dtype": ("float32", "bfloat16", "float16"),
}
AT_LEAST = {
    "window_length": 2, "max_source_length": 2, "max_target_length": 2, "batch_size": 1, "warmup_steps": 0,
    "gradient_accumulation_steps": 1, "lora_r": 1, "seed": 0, "weight_decay": 0, "max_grad_norm": 0,
    "save_total_limit": 1,
}  # fmt: skip
POSITIVE = (
    "learning_rate", "adam_epsilon", "num_train_epochs", "head_lr_multiplier", "lora_alpha", "logging_steps",
    "eval_steps", "save_steps",
)  # fmt: skip
PRECISIONS: dict[str, Values] = {
    "float32": {"bf16": False, "fp16": False},
    "bfloat16": {"bf16": True, "fp16": False},
    "float16": {"bf16": False, "fp16": True},
}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A field of the training arguments, as `arguments.json` describes it."""

    name: str
    kind: str  # bool, int, float, str, list or json
    optional: bool  # whether it may be None
    default: object
    choices: tuple[str, ...] = ()
    group: str
    help: str


@functools.cache
def known_arguments(task: str) -> dict[str, Argument]:
    """All arguments of a task, lm or summarize, by name."""
    contents = json.loads(Path(__file__).with_name("arguments.json").read_text(encoding="utf-8"))
    fields = [Argument(**field) for field in (*contents[task], *contents["shared"])]
    return {field.name: field for field in fields}


def full_names(values: Mapping[str, object]) -> Values:
    """The same arguments under the names of TrainingArguments."""
    arguments: Values = {}
    for name, value in values.items():
        if name == "precision":
            check_choice(name, value, PRECISIONS)
            arguments |= PRECISIONS[str(value)]
        elif name == "device":
            check_choice(name, value, ("auto", "cpu"))
            arguments["use_cpu"] = value == "cpu"
        elif name == "shuffle":
            arguments["train_sampling_strategy"] = "random" if value else "sequential"
        elif name == "schedule":
            arguments["lr_scheduler_type"] = "constant_with_warmup" if value == "constant" else value
        elif name in ("eval_every", "save_every"):
            arguments[SHORT_NAMES[name]] = NEVER if value is None else value
        elif name == "max_steps":
            arguments[name] = -1 if value is None else value
        else:
            arguments[SHORT_NAMES.get(name, name)] = value
    return arguments


def check_choice(name: str, value: object, known: Collection[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} {value!r}: unknown. Known: {', '.join(known)}.")


def check_values(values: Mapping[str, object]) -> None:
    """Refuse values that no training can have. Names are those of the arguments."""
    for name, value in values.items():
        number = value if isinstance(value, (int, float)) else math.nan
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        elif name in AT_LEAST and value is not None and not AT_LEAST[name] <= number < math.inf:
            raise ValueError(f"{name} {value}: give a number of at least {AT_LEAST[name]}.")
        elif name in POSITIVE and not 0 < number < math.inf:
            raise ValueError(f"{name} {value}: give a number above 0.")
        elif name == "max_steps" and number != -1 and not 1 <= number < math.inf:
            raise ValueError(f"max_steps {value}: give a number of at least 1, or -1 for num_train_epochs.")
        if name == "seed" and number > LARGEST_SEED:
            raise ValueError(f"seed {value}: give a number of at most {LARGEST_SEED}.")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Arguments of any training with short names. The defaults are the paper's for language models."""

    output: str  # folder of the run
    batch: int = 4  # windows, or pairs of document and summary, over all processes
    accumulate: int = 1  # batches per step
    lr: float = 1e-5
    head_lr: float = 1.0  # times lr: the learning rate of the head
    eps: float = 1e-6  # of AdamW
    weight_decay: float = 1.2e-6
    clip: float = 0.25  # maximum norm of the gradient; 0: no clipping
    schedule: str = "constant"  # constant, linear or cosine, after the warm-up
    warmup_steps: int = 0
    epochs: float = 1.0
    max_steps: int | None = None  # instead of epochs
    shuffle: bool = True  # ignored for streams
    seed: int = 0
    train: str = "all"  # all: what is not frozen; head: a frozen backbone; lora: adapters, and the full head
    lora_rank: int = 8
    lora_alpha: float = 16.0
    states: str | None = None  # folder for the hidden states of a frozen backbone; several runs may share it
    states_dtype: str = "float32"
    precision: str = "float32"  # bfloat16 and float16: mixed precision
    device: str = "auto"  # auto: a GPU if there is one
    log_every: int = 10  # steps
    eval_every: int | None = None  # steps; None: before and after training
    save_every: int | None = 500  # steps between checkpoints; None: at the end only
    keep: int = 2  # checkpoints
    report_to: tuple[str, ...] | None = None  # None: tensorboard, if installed

    def __post_init__(self) -> None:
        check_choice("schedule", self.schedule, ("constant", "linear", "cosine"))
        check_values(full_names(asdict(self)))

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    def arguments(self) -> HeadTrainingArguments:
        """The same under the names of TrainingArguments, as the Trainer takes them."""
        from unbottle.train.arguments import HeadTrainingArguments

        return HeadTrainingArguments.from_values(asdict(self))


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """Arguments for a language model with short names. The defaults are the paper's for GPT-2 small."""

    length: int = 200  # tokens of a window

    def arguments(self) -> LMTrainingArguments:
        from unbottle.train.arguments import LMTrainingArguments

        return LMTrainingArguments.from_values(asdict(self))


@dataclass(frozen=True, kw_only=True)
class SummarizeSettings(RunSettings):
    """Arguments for an encoder-decoder model with short names. The defaults are the paper's.

    The paper does not say how gradients are clipped: 1.0 is the default of the Trainer.
    """

    batch: int = 8  # pairs
    lr: float = 5e-5
    clip: float = 1.0
    schedule: str = "linear"
    warmup_steps: int = 1000
    epochs: float = 3.0
    source_length: int = 1024  # maximum number of tokens of a document
    target_length: int = 128  # maximum number of tokens of a summary
    prefix: str | None = None  # before each document; None: what the model's config names, as T5's does, or nothing

    def arguments(self) -> SummarizeTrainingArguments:
        from unbottle.train.arguments import SummarizeTrainingArguments

        return SummarizeTrainingArguments.from_values(asdict(self))
