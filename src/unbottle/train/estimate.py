"""What a training would take: steps, time and disk space."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sized
from itertools import islice
from typing import cast

import torch
from torch.utils.data import Dataset
from transformers import PreTrainedModel

from unbottle.hf.head_inputs import layers_of
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import duration
from unbottle.train.arguments import HeadTrainingArguments
from unbottle.train.distributed import Row
from unbottle.train.hidden_state_cache import is_cacheable
from unbottle.train.trainer import collate

MOMENTS = 8  # bytes per trained parameter: two moments of AdamW in float32
REPEATS = 2  # timed steps; the first is to warm up
NOTE = "Time is measured with one batch on this machine, without validation and checkpoints."


def estimate(
    model: PreTrainedModel, train: Dataset[Row], valid: Dataset[Row] | None, args: HeadTrainingArguments
) -> dict[str, object]:
    """Steps from the amount of data, time from one step (no weight changes), disk from the size of what is written.

    With train_mode "head" the frozen backbone reads each window once, and a step is one of the head alone. With "lora"
    the time is that of training all weights, an upper bound.
    """
    examples = len(train) if isinstance(train, Sized) else None
    steps = number_of_steps(examples, args)
    rows: list[Row] = [*islice(cast("Iterable[Row]", train), args.batch_size)]
    head_only = isinstance(model, HeadMixin) and args.train_mode == "head"
    reading, step = step_seconds(model, collate(rows), args.device, head_only=head_only)
    seconds = steps * args.gradient_accumulation_steps * step
    part = model.head if isinstance(model, HeadMixin) and args.train_mode != "all" else model
    trained = {id(p): p for p in part.parameters() if p.requires_grad}.values()
    checkpoint = sum(p.numel() * (p.element_size() + MOMENTS) for p in trained)
    disk = {
        "model": sum(p.numel() * p.element_size() for p in model.parameters()),
        "checkpoints": (args.save_total_limit or steps // max(1, int(args.save_steps)) + 1) * checkpoint,
    }
    if isinstance(model, HeadMixin) and head_only and examples is not None and is_cacheable(model):
        batches = steps * args.gradient_accumulation_steps
        seconds = examples / args.batch_size * reading + batches * max(step - reading, 0.0)
        windows = examples + (len(valid) if isinstance(valid, Sized) else 0)
        with torch.no_grad():
            layers = layers_of(model.eval(), {"input_ids": rows[0]["input_ids"][None].to(model.device)})
        disk["hidden states"] = windows * layers.numel() * getattr(torch, args.hidden_states_dtype).itemsize
    total = sum(disk.values())
    return {
        "examples": examples,
        "steps": steps,
        "seconds": round(seconds, 1),
        "time": duration(seconds),
        "disk_bytes": disk,
        "disk": f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.1f} MB",
        "note": NOTE,
    }


def number_of_steps(examples: int | None, args: HeadTrainingArguments) -> int:
    """Optimizer steps, as the Trainer counts them."""
    if args.max_steps > 0:
        return args.max_steps
    if examples is None:
        raise ValueError("--streaming needs --max_steps: a stream has no end.")
    batches = math.ceil(examples / args.batch_size)
    return math.ceil(args.num_train_epochs * max(1, math.ceil(batches / args.gradient_accumulation_steps)))


def step_seconds(model: PreTrainedModel, batch: Row, device: torch.device, *, head_only: bool) -> tuple[float, float]:
    """Seconds of a forward pass without gradients, and of a training step. Weights do not change."""
    model.to(device)  # type: ignore[arg-type]
    batch = {name: value.to(device) for name, value in batch.items()}
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    if head_only:
        model.requires_grad_(False)
        model.head.requires_grad_(True)
    reading = step = 0.0
    for _ in range(REPEATS):
        started = time.perf_counter()
        with torch.no_grad():
            model.eval()(**batch)
        reading = time.perf_counter() - started
        started = time.perf_counter()
        model.train()(**batch).loss.backward()
        step = time.perf_counter() - started
        model.zero_grad()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trainable[name])
    return reading, step
