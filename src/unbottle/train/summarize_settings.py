"""SummarizeSettings: everything the training of an encoder-decoder model is told."""

from __future__ import annotations

from dataclasses import dataclass

from unbottle.train.settings import TINY, RunSettings


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
