"""A run of the benchmark: measurements of all cases beside the plain model, and the goals."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from transformers.utils import logging

from unbottle.bench.cases import (
    AT_CONTEXT,
    HEAD,
    NEW_TOKENS,
    NO_GOAL,
    PLAIN,
    BenchSettings,
    Case,
    CaseGroup,
    Goal,
    HeadVariant,
    Point,
    Shape,
    goal,
    plan,
)
from unbottle.bench.memory import peak_memory
from unbottle.bench.models import Models
from unbottle.bench.timing import Clock, Time, Times, clock_of, count_flops, take_turns, work
from unbottle.files import Json
from unbottle.progress import Progress


def machine(device: str = "cpu") -> Json:
    """Processor, system and versions, without the name of the machine."""
    versions = {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")}
    return {
        "processor": processor() if device == "cpu" else f"{torch.cuda.get_device_name(device)}, {processor()}",
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()} | versions,
    }


def processor() -> str:
    """The model name of the processor on Linux, elsewhere what Python knows."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def identity(point: Point, variant: HeadVariant) -> Json:
    """What distinguishes a case from the others of a run."""
    return {
        "shape": point.shape.name,
        "vocabulary": point.shape.vocabulary,
        "measure": point.measure,
        "batch": point.batch,
        "length": point.length,
        "source_length": point.source_length or None,
        "context": point.context,
        "scale": None if point.axis is None else {"axis": point.axis, "value": point.value},
        "method": variant.method,
        "path": variant.path,
    }


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Times and memory of one case. Times are medians, ratios are relative to the baseline at the same point.

    `flops` are those of dense matrix products: the ratio to expect if nothing else took time.
    """

    point: Point
    variant: HeadVariant
    device: str = "cpu"
    times: tuple[Time, ...]
    baseline: tuple[Time, ...]
    peak_mb: float | None = None
    baseline_peak_mb: float | None = None
    flops: int | None = None
    baseline_flops: int | None = None
    goal: Goal = NO_GOAL
    paper_ratio: float | None = None

    @property
    def cpu(self) -> float:
        return median(time.cpu for time in self.times)

    @property
    def wall(self) -> float:
        return median(time.wall for time in self.times)

    @property
    def cpu_ratio(self) -> float:
        return self.cpu / median(time.cpu for time in self.baseline)

    @property
    def wall_ratio(self) -> float:
        return self.wall / median(time.wall for time in self.baseline)

    @property
    def memory_ratio(self) -> float | None:
        if self.peak_mb is None or self.baseline_peak_mb is None:
            return None
        return self.peak_mb / self.baseline_peak_mb

    @property
    def flop_ratio(self) -> float | None:
        return None if self.flops is None or not self.baseline_flops else self.flops / self.baseline_flops

    @property
    def misses_time(self) -> bool:
        return self.goal.time is not None and self.wall_ratio > self.goal.time

    @property
    def misses_memory(self) -> bool:
        ratio = self.memory_ratio
        return ratio is not None and self.goal.memory is not None and ratio > self.goal.memory

    @property
    def words(self) -> int:
        """How many next words one step predicts."""
        each = {"decode": 1, "generate": NEW_TOKENS}.get(self.point.measure, self.point.length)
        return self.point.batch * each

    def to_dict(self) -> Json:
        """JSON data, in seconds and MB."""
        return identity(self.point, self.variant) | {
            self.device: {"median": self.cpu, "ratio": self.cpu_ratio, "times": [time.cpu for time in self.times]},
            "wall": {"median": self.wall, "ratio": self.wall_ratio, "times": [time.wall for time in self.times]},
            "memory": None if self.peak_mb is None else {"peak_mb": self.peak_mb, "ratio": self.memory_ratio},
            "flops": None if self.flops is None else {"total": self.flops, "ratio": self.flop_ratio},
            "goal": {"time": self.goal.time, "memory": self.goal.memory},
            "paper": self.paper_ratio,
        }


MEMORY_WORK = 3  # runs that a separate process costs: imports, a model, and the run


class Bench:
    """A run of the benchmark. `rows` holds what was measured, also after an interruption.

    `groups` replaces the cases that follow from the settings. Groups whose rows are all in `saved`, as `to_dict` made
    them, are not measured again. `checkpoint` is called after each group. `paper` holds the ratios that the paper
    prints, for shapes and methods.
    """

    def __init__(
        self,
        settings: BenchSettings,
        *,
        report: Progress = lambda done, total, text: None,
        clock: Clock | None = None,
        peak: Callable[[Case], float] = peak_memory,
        groups: Sequence[CaseGroup] | None = None,
        saved: Sequence[Json] = (),
        checkpoint: Callable[[], None] = lambda: None,
        paper: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        self.settings = settings
        self.groups = plan(settings) if groups is None else list(groups)
        self.rows: list[Measurement] = []
        self.report, self.clock, self.peak = report, clock or clock_of(settings), peak
        self.done = 0.0
        self.total = sum(self._work(group) for group in self.groups)
        self._saved, self._checkpoint, self._paper = saved, checkpoint, paper or {}
        self._order = random.Random(settings.seed)
        self._models: tuple[Shape, Models] | None = None

    def run(self) -> None:
        """Measure all groups. On Ctrl-C, what was measured of the current group is kept."""
        threads, verbosity = torch.get_num_threads(), logging.get_verbosity()
        torch.set_num_threads(self.settings.threads)
        logging.set_verbosity_error()  # warnings about random models
        try:
            for group in self.groups:
                self._step(group, 0, "starting")
                times, peaks, flops = self._measured_before(group)
                if all(len(times.get(variant.name, ())) == self.settings.repeats for variant in group.variants):
                    self.rows += self._rows(group, times, peaks, flops)
                    self.done += self._work(group)
                else:
                    self._measure(group)
                self._checkpoint()
        finally:
            self._models = None
            torch.set_num_threads(threads)
            logging.set_verbosity(verbosity)

    def _measured_before(self, group: CaseGroup) -> tuple[Times, dict[str, float], dict[str, int]]:
        times: Times = {}
        peaks: dict[str, float] = {}
        flops: dict[str, int] = {}
        for variant in group.variants:
            wanted = identity(group.point, variant)
            for row in self._saved:
                if wanted.items() <= row.items() and (row["memory"] or not self._memory(group)):
                    pairs = zip(row["wall"]["times"], row[self.settings.device]["times"], strict=True)
                    times[variant.name] = [Time(wall, cpu) for wall, cpu in pairs]
                    peaks |= {variant.name: row["memory"]["peak_mb"]} if row["memory"] else {}
                    flops |= {variant.name: row["flops"]["total"]} if row.get("flops") else {}
        return times, peaks, flops

    def _measure(self, group: CaseGroup) -> None:
        times: Times = {}
        peaks: dict[str, float] = {}
        flops: dict[str, int] = {}
        try:
            self._time(group, times, flops)
            if self._memory(group):
                for variant in group.variants:
                    case = Case(point=group.point, variant=variant, execution=self.settings.execution)
                    peaks[variant.name] = self.peak(case)
                    self._step(group, MEMORY_WORK, f"memory of {variant.name}")
        finally:
            self.rows += self._rows(group, times, peaks, flops)

    def _time(self, group: CaseGroup, times: Times, flops: dict[str, int]) -> None:
        alone = group.point.measure in HEAD
        models = self._of(group.point.shape)
        works = {v.name: work(models.model(v, head_alone=alone), group.point) for v in group.variants}
        # a decoding step takes as long as reading the weights, whatever it computes
        if group.point.measure not in AT_CONTEXT and not self.settings.compile:
            flops |= {name: count_flops(each) for name, each in works.items()}
        with self._compiler(len(works)):
            take_turns(
                works,
                times,
                repeats=self.settings.repeats,
                clock=self.clock,
                order=self._order,
                done=lambda name: self._step(group, 1, name),
            )
        models.base.zero_grad(set_to_none=True)

    def _compiler(self, num_variants: int) -> contextlib.AbstractContextManager:
        """Variants share code, which the compiler would give up on after few of them."""
        if not self.settings.compile:
            return contextlib.nullcontext()
        import torch._dynamo.config as config

        torch.compiler.reset()
        limit: contextlib.AbstractContextManager = config.patch(recompile_limit=config.recompile_limit * num_variants)
        return limit

    def _of(self, shape: Shape) -> Models:
        """The models of a shape; those of the previous shape are freed."""
        if self._models is None or self._models[0] != shape:
            self._models = None
            gc.collect()
            positions = max(group.point.positions for group in self.groups if group.point.shape == shape)
            self._models = (shape, Models(shape, positions=positions, execution=self.settings.execution))
        return self._models[1]

    def _rows(
        self, group: CaseGroup, times: Times, peaks: dict[str, float], flops: dict[str, int]
    ) -> Iterator[Measurement]:
        baseline = group.variants[0].name
        for variant in group.variants:
            if times.get(variant.name) and times.get(baseline):
                yield Measurement(
                    point=group.point,
                    variant=variant,
                    device=self.settings.device,
                    times=tuple(times[variant.name]),
                    baseline=tuple(times[baseline]),
                    peak_mb=peaks.get(variant.name),
                    baseline_peak_mb=peaks.get(baseline),
                    flops=flops.get(variant.name),
                    baseline_flops=flops.get(baseline),
                    goal=self._goal(group, variant),
                    paper_ratio=self._paper.get((group.point.shape.name, variant.method)),
                )

    def _goal(self, group: CaseGroup, variant: HeadVariant) -> Goal:
        is_relative_to_plain = group.variants[0].method == PLAIN
        return goal(group.point, variant, self.settings.execution) if is_relative_to_plain else NO_GOAL

    def _step(self, group: CaseGroup, runs: float, text: str) -> None:
        self.done += runs * group.point.work
        point = group.point
        at = "" if point.axis is None else f" {point.axis}={point.value}"
        self.report(self.done, self.total, f"{point.shape.name} {point.title}{at}: {text}")

    def _memory(self, group: CaseGroup) -> bool:
        return self.settings.memory and group.memory

    def _work(self, group: CaseGroup) -> float:
        runs = 1 + self.settings.repeats + (MEMORY_WORK if self._memory(group) else 0)
        return group.point.work * len(group.variants) * runs
