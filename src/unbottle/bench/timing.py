"""What is timed for each measure, and timing in rounds in which variants take turns, so that load affects all alike."""

from __future__ import annotations

import copy
import gc
import inspect
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from unbottle.bench.cases import Point
from unbottle.bench.models import fill


class Clock(Protocol):
    def wall(self) -> float: ...

    def cpu(self) -> float: ...


class SystemClock:
    """Seconds that passed, and seconds that all threads of this process computed."""

    def wall(self) -> float:
        return time.perf_counter()

    def cpu(self) -> float:
        return time.process_time()


@dataclass(frozen=True)
class Time:
    """Seconds of one step."""

    wall: float
    cpu: float


Times = dict[str, list[Time]]


def take_turns(
    works: Mapping[str, Work],
    times: Times,
    *,
    repeats: int,
    clock: Clock,
    order: random.Random,
    done: Callable[[str], None] = lambda name: None,
) -> None:
    """One round of warm-up, then `repeats` rounds; in each, every work once, in random order.

    `times` is filled as they come, so that an interrupted run has what it measured.
    """
    gc.collect()
    gc.freeze()  # later collections skip what exists already
    try:
        for number in range(1 + repeats):
            names = list(works)
            order.shuffle(names)
            for name in names:
                time = timed(works[name], clock)
                if number > 0:
                    times.setdefault(name, []).append(time)
                done(name)
    finally:
        gc.unfreeze()


def timed(work: Work, clock: Clock) -> Time:
    """The time of one step; garbage is collected before it, not during it."""
    work.prepare()
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        wall, cpu = clock.wall(), clock.cpu()
        result = work.run()
        cpu, wall = clock.cpu() - cpu, clock.wall() - wall
    finally:
        if collecting:
            gc.enable()
    del result  # freeing it is not timed
    return Time(wall / work.steps, cpu / work.steps)


DECODE_STEPS = 4  # timed steps of a decode; one more goes before them, untimed
SPECIAL = 3  # ids below are padding and its like


@dataclass(frozen=True)
class Work:
    prepare: Callable[[], None]
    run: Callable[[], object]
    steps: int = 1  # how often `run` does the thing that is measured


def work(model: PreTrainedModel, point: Point) -> Work:
    """What a measure does with a model at a point. Words are uniformly random, so few repeat: the slow case."""
    if point.measure == "decode":
        return decoding(model, point)
    inputs = texts(model, point)
    training = point.measure.endswith("train")
    stubs = []
    if point.measure.startswith("head-"):
        sizes = {"batch": point.batch, "length": point.length, "source_length": point.source_length}
        stubs = fill(model, **sizes, require_grad=training)

    def prepare() -> None:
        model.train(training)
        model.zero_grad(set_to_none=True)
        for stub in stubs:
            stub.forget()

    runs = {"forward": forward, "loss": evaluation_loss, "train": training_step}
    measured = runs[point.measure.removeprefix("head-")]
    return Work(prepare, lambda: measured(model, inputs))


def forward(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    """The logits of all positions."""
    unlabelled = {name: value for name, value in inputs.items() if name != "labels"}
    with torch.no_grad():
        logits: Tensor = model(**unlabelled, use_cache=False).logits
    return logits


def evaluation_loss(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    """The loss without gradients. A plain model returns its logits too: that is how it works."""
    with torch.no_grad():
        return loss(model, inputs)


def training_step(model: PreTrainedModel, inputs: dict[str, Tensor]) -> None:
    """Forward and backward, without optimiser."""
    loss(model, inputs).backward()


def loss(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    labelled = {name: value for name, value in inputs.items() if name != "decoder_input_ids"}
    value: Tensor = model(**labelled, use_cache=False, **without_logits(model)).loss
    return value


def without_logits(model: PreTrainedModel) -> dict[str, bool]:
    """The argument that makes a model with a head skip its logits; a plain model has none."""
    return {"skip_logits": True} if "skip_logits" in inspect.signature(model.forward).parameters else {}


def texts(model: PreTrainedModel, point: Point) -> dict[str, Tensor]:
    """The same random texts for every variant."""
    target = words(point, point.length, seed=1)
    if not model.config.is_encoder_decoder:
        return {"input_ids": target, "labels": target}
    source = words(point, point.source_length, seed=2)
    return {"input_ids": source, "decoder_input_ids": target, "labels": target}


def words(point: Point, length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(SPECIAL, point.shape.vocabulary, (point.batch, length), generator=generator)


def decoding(model: PreTrainedModel, point: Point) -> Work:
    """Steps of generation with a cache; the last one reads `context` words.

    The cache is filled once. Every round starts from a copy of it, so that the context is the same in each; the first
    step after copying is not timed.
    """
    assert point.context is not None
    model.eval()
    context = point.context
    past = context - DECODE_STEPS - 1
    ids = words(point, context, seed=1)
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            source = words(point, point.source_length, seed=2)
            fixed = {"encoder_outputs": model.get_encoder()(input_ids=source, return_dict=True)}
            name = "decoder_input_ids"
            first = {}
        else:
            fixed, name = {}, "input_ids"
            first = {"logits_to_keep": 1}  # as generate() asks for
        filled = model(**{name: ids[:, :past]}, **fixed, **first, use_cache=True).past_key_values
    state: dict[str, Any] = {}

    def step(at: int) -> None:
        with torch.no_grad():
            model(**{name: ids[:, at : at + 1]}, **fixed, past_key_values=state["cache"], use_cache=True)

    def prepare() -> None:
        model.eval()
        state["cache"] = copy.deepcopy(filled)
        step(past)

    def run() -> None:
        for at in range(past + 1, context):
            step(at)

    return Work(prepare, run, steps=DECODE_STEPS)
