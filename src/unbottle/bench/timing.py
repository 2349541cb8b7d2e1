"""What is timed for each measure, and timing in rounds in which variants take turns, so that load affects all alike."""

from __future__ import annotations

import copy
import gc
import inspect
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from transformers import PreTrainedModel

from unbottle.bench.cases import NEW_TOKENS, Execution, Point
from unbottle.bench.models import fill


@dataclass(frozen=True)
class Time:
    """Seconds of one step: `wall` that passed, `cpu` that all threads of this process computed.

    On a GPU, `cpu` is the time between an event before and an event after the step.
    """

    wall: float
    cpu: float


class Clock(Protocol):
    def start(self) -> None: ...

    def stop(self) -> Time:
        """The time since `start`."""


class SystemClock:
    def start(self) -> None:
        self._started = Time(time.perf_counter(), time.process_time())

    def stop(self) -> Time:
        cpu, wall = time.process_time(), time.perf_counter()
        return Time(wall - self._started.wall, cpu - self._started.cpu)


class CudaClock:
    """Both times wait for the GPU: work that was only queued is not done."""

    def start(self) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda.synchronize()
        self._wall = time.perf_counter()
        self._events[0].record()

    def stop(self) -> Time:
        self._events[1].record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - self._wall
        return Time(wall, self._events[0].elapsed_time(self._events[1]) / 1000)


def clock_of(execution: Execution) -> Clock:
    return CudaClock() if execution.on_gpu else SystemClock()


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


def median_times(runs: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, Time]:
    """The median times of functions that take turns."""
    times: Times = {}
    works = {name: Work(lambda: None, run) for name, run in runs.items()}
    take_turns(works, times, repeats=repeats, clock=SystemClock(), order=random.Random(0))
    return {
        name: Time(median(each.wall for each in times[name]), median(each.cpu for each in times[name])) for name in runs
    }


def timed(work: Work, clock: Clock) -> Time:
    """The time of one step; garbage is collected before it, not during it."""
    work.prepare()
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        clock.start()
        result = work.run()
        time = clock.stop()
    finally:
        if collecting:
            gc.enable()
    del result  # freeing it is not timed
    return Time(time.wall / work.steps, time.cpu / work.steps)


class FlopCounter(TorchDispatchMode):
    """Counts floating-point operations of dense matrix products and convolutions, by torch's formulas.

    torch's own `FlopCounterMode` follows modules as well, and fails where gradients are computed in a forward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = func.overloadpacket
        in_place = getattr(torch.ops.aten, packet.__name__.removesuffix("_"), None)
        formula = flop_registry.get(packet) or flop_registry.get(in_place)
        if formula is not None and all(arg.layout == torch.strided for arg in args if isinstance(arg, Tensor)):
            self.total += formula(*args, **kwargs, out_val=result)
        return result


def count_flops(work: Work) -> int:
    """Floating-point operations of one step."""
    work.prepare()
    with FlopCounter() as counter:
        work.run()
    total: int = counter.total
    return total // work.steps


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
    if point.measure == "generate":
        return generation(model, point)
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

    def loss(**options: bool) -> Tensor:
        labelled = {name: value for name, value in inputs.items() if name != "decoder_input_ids"}
        value: Tensor = model(**labelled, **options).loss
        return value

    @torch.no_grad()
    def forward() -> Tensor:
        """The logits of all positions."""
        unlabelled = {name: value for name, value in inputs.items() if name != "labels"}
        logits: Tensor = model(**unlabelled, use_cache=False).logits
        return logits

    @torch.no_grad()
    def evaluate() -> Tensor:
        """The loss, and the logits unless they are declined, which a plain model does not know."""
        can_skip = "skip_logits" in inspect.signature(model.forward).parameters
        return loss(skip_logits=True) if can_skip and point.measure.endswith("no-logits") else loss()

    def train() -> None:
        """Forward and backward, without optimiser."""
        loss(use_cache=False).backward()

    runs = {"forward": forward, "loss": evaluate, "loss-no-logits": evaluate, "train": train}
    return Work(prepare, runs[point.measure.removeprefix("head-")])


def texts(model: PreTrainedModel, point: Point) -> dict[str, Tensor]:
    """The same random texts for every variant."""
    target = words(model, point, point.length, seed=1)
    if not model.config.is_encoder_decoder:
        return {"input_ids": target, "labels": target}
    source = words(model, point, point.source_length, seed=2)
    return {"input_ids": source, "decoder_input_ids": target, "labels": target}


def words(model: PreTrainedModel, point: Point, length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SPECIAL, point.shape.vocabulary, (point.batch, length), generator=generator)
    return ids.to(model.device)


def generation(model: PreTrainedModel, point: Point) -> Work:
    """A call of `generate` from a prompt, or from a source: greedy, always the same number of new tokens."""
    ids = words(model, point, point.context or point.source_length, seed=1)
    options = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": 1}
    mask = torch.ones_like(ids)

    def prepare() -> None:
        model.eval()

    generate: Any = model.generate  # to mypy, the attribute of a module is a tensor or a module
    return Work(prepare, lambda: generate(ids, attention_mask=mask, **options))


def decoding(model: PreTrainedModel, point: Point) -> Work:
    """Steps of generation with a cache; the last one reads `context` words.

    The cache is filled once. Every round starts from a copy of it, so that the context is the same in each; the first
    step after copying is not timed.
    """
    assert point.context is not None
    model.eval()
    context = point.context
    past = context - DECODE_STEPS - 1
    ids = words(model, point, context, seed=1)
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            source = words(model, point, point.source_length, seed=2)
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
