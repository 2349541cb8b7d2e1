"""Settings: everything a training is told.

SummarizeSettings: everything the training of an encoder-decoder model is told.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

CHOICES = {
    "train": ("all", "head", "lora"),
    "schedule": ("constant", "linear", "cosine"),
    "precision": ("float32", "bfloat16", "float16"),
    "states_dtype": ("float32", "bfloat16", "float16"),
    "device": ("auto", "cpu"),
}
AT_LEAST = {
    "length": 2, "source_length": 2, "target_length": 2, "batch": 1, "accumulate": 1, "warmup_steps": 0, "max_steps": 1,
    "lora_rank": 1, "log_every": 1, "eval_every": 1, "save_every": 1, "keep": 1, "seed": 0, "weight_decay": 0,
    "clip": 0,
}  # fmt: skip
LARGEST_SEED = 2**32 - 1  # NumPy's
POSITIVE = ("lr", "eps", "epochs", "head_lr", "lora_alpha")
FREE = (
    "output",
    "report_to",
    "keep",
    "save_every",
    "states",
)  # may differ when a run goes on: no weight depends on them


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What every training is told. The defaults are the paper's for language models."""

    output: str  # folder of the run
    batch: int = 4  # windows, or pairs of document and summary; of all processes together
    accumulate: int = 1  # batches per step
    lr: float = 1e-5
    head_lr: float = 1.0  # times lr: the learning rate of the head
    eps: float = 1e-6  # AdamW's
    weight_decay: float = 1.2e-6
    clip: float = 0.25  # largest norm of the gradient; 0: any
    schedule: str = "constant"  # constant, linear or cosine, after the warm-up
    warmup_steps: int = 0
    epochs: float = 1.0
    max_steps: int | None = None  # instead of epochs
    shuffle: bool = True  # the order of the windows; a stream keeps its own
    seed: int = 0
    train: str = "all"  # all: what is not frozen; head: a frozen model, read once; lora: adapters, and the head in full
    lora_rank: int = 8
    lora_alpha: float = 16.0
    states: str | None = None  # folder for what the frozen model said; several runs may share it. None: in output
    states_dtype: str = "float32"
    precision: str = "float32"  # bfloat16 and float16: mixed
    device: str = "auto"  # auto: a GPU if there is one
    log_every: int = 10  # steps
    eval_every: int | None = None  # steps; None: before and after
    save_every: int | None = 500  # steps between checkpoints; None: at the end only
    keep: int = 2  # checkpoints
    report_to: tuple[str, ...] | None = None  # None: tensorboard, if installed; also wandb, trackio, ...

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} {value!r}: unknown. Known: {', '.join(allowed)}.")
        for name, least in AT_LEAST.items():
            if (number := getattr(self, name, None)) is not None and not least <= number < math.inf:
                raise ValueError(f"{name} {number}: give a number of at least {least}.")
        for name in POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} {getattr(self, name)}: give a number above 0.")
        if self.seed > LARGEST_SEED:
            raise ValueError(f"seed {self.seed}: give a number of at most {LARGEST_SEED}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """Of a language model. The defaults are the paper's, which are its authors' for GPT-2 small."""

    length: int = 200  # tokens of a window


TINY = 1e-12  # as AdamW's eps: projections that start at 1e-10 have gradients far below the paper's 1e-6 (LOG.md)
PRESETS: dict[str, Settings] = {  # output is for you to say: replace(PRESETS["paper"], output="runs/mine")
    # The paper: GPT-2 small, one pass over the text.
    "paper": Settings(output=""),
    # The paper: GPT-2 medium, 0.4 of a pass.
    "paper-medium": Settings(output="", epochs=0.4),
    # Not the paper's: a new output layer on a model that stays as it is. Nothing else can break, so steps are larger.
    "head": Settings(output="", train="head", batch=8, lr=1e-4, eps=TINY, clip=1.0, warmup_steps=20, epochs=3.0),
    # Not the paper's: adapters in the model, the head in full.
    "lora": Settings(output="", train="lora", batch=8, lr=2e-4, eps=TINY, clip=1.0, warmup_steps=20),
    # Not the paper's: a small model from nothing.
    "scratch": Settings(
        output="",
        batch=16,
        lr=1e-3,
        eps=TINY,
        weight_decay=0.1,
        clip=1.0,
        schedule="cosine",
        warmup_steps=100,
        epochs=5.0,
    ),
}


@dataclass(frozen=True, kw_only=True)
class SummarizeSettings(RunSettings):
    """The defaults are the paper's. It does not say how gradients are clipped: 1.0 is the Trainer's own default."""

    batch: int = 8  # pairs
    lr: float = 5e-5
    clip: float = 1.0
    schedule: str = "linear"
    warmup_steps: int = 1000
    epochs: float = 3.0
    source_length: int = 1024  # tokens of a document, at most
    target_length: int = 128  # tokens of a summary, at most
    prefix: str | None = None  # before each document; None: what the model's config names, as T5's does, or nothing


SUMMARIZE_PRESETS: dict[str, SummarizeSettings] = {
    # The paper: T5 and BART on CNN/DM, XSUM and SAMSum.
    "paper": SummarizeSettings(output=""),
    # The paper: BookSum, paragraphs.
    "paper-booksum": SummarizeSettings(output="", epochs=5.0),
    # The paper: BART large on BookSum, where a larger learning rate was not stable with every method.
    "paper-booksum-bart-large": SummarizeSettings(output="", epochs=5.0, lr=1e-5),
    # Not the paper's: a new output layer on a model that stays as it is. Nothing else can break, so steps are larger.
    "head": SummarizeSettings(output="", train="head", lr=1e-3, eps=TINY, schedule="constant", warmup_steps=20),
    # Not the paper's: adapters in the model, the head in full.
    "lora": SummarizeSettings(output="", train="lora", lr=2e-4, eps=TINY, schedule="constant", warmup_steps=20),
    # Not the paper's: a small model from nothing.
    "scratch": SummarizeSettings(
        output="", batch=16, lr=1e-3, eps=TINY, weight_decay=0.1, schedule="cosine", warmup_steps=100, epochs=10.0
    ),
}
