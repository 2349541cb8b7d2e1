"""A run of the benchmark: measurements of all cases beside the plain model, and the promised limits."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from transformers.utils import logging

from unbottle.bench.cases import HEAD, BenchSettings, Case, CaseGroup, HeadVariant, Point, Shape, plan
from unbottle.bench.memory import peak_memory
from unbottle.bench.models import Models
from unbottle.bench.timing import Clock, SystemClock, Time, Times, take_turns, work
from unbottle.files import Json
from unbottle.progress import Progress


def machine() -> Json:
    """Processor, system and versions, without the name of the machine."""
    versions = {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")}
    return {
        "processor": processor(),
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


@dataclass(frozen=True)
class Limit:
    """The most that a case may cost, as ratios to the plain model."""

    time: float | None = None
    memory: float | None = None


CPR, C, MOS, CEPR = "softmax+cpr:20,100+mi", "softmax+c+mi", "mos", "softmax+cepr:20"
SIZES = {"gpt2": (4, 200, 0), "t5-small": (8, 64, 512), "vocab-152k": (4, 1024, 0)}  # batch, length, source length
LIMITS = {
    ("gpt2", CPR, "train", None): Limit(1.00, 0.95),
    ("gpt2", CPR, "loss", None): Limit(0.98),
    ("gpt2", CPR, "forward", None): Limit(1.04),
    ("gpt2", CPR, "decode", 128): Limit(1.06),
    ("gpt2", CPR, "decode", 1024): Limit(1.08),
    ("gpt2", C, "train", None): Limit(0.98),
    ("gpt2", MOS, "train", None): Limit(1.40),
    ("t5-small", CEPR, "train", None): Limit(1.06),
    ("vocab-152k", CPR, "train", None): Limit(None, 0.50),
}


def limit(point: Point, variant: HeadVariant, *, dtype: str, threads: int) -> Limit:
    """The limit of a case; none if its sizes are not those of LIMITS."""
    name = point.shape.name
    promised = (dtype, threads, variant.path) == ("float32", 2, "auto") and point.axis is None
    if not promised or SIZES.get(name) != (point.batch, point.length, point.source_length):
        return Limit()
    return LIMITS.get((name, variant.method, point.measure, point.context), Limit())


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Times and memory of one case. Times are medians, ratios are relative to the plain model at the same point."""

    point: Point
    variant: HeadVariant
    times: tuple[Time, ...]
    plain: tuple[Time, ...]
    peak_mb: float | None = None
    plain_peak_mb: float | None = None
    limit: Limit

    @property
    def cpu(self) -> float:
        return median(time.cpu for time in self.times)

    @property
    def wall(self) -> float:
        return median(time.wall for time in self.times)

    @property
    def cpu_ratio(self) -> float:
        return self.cpu / median(time.cpu for time in self.plain)

    @property
    def wall_ratio(self) -> float:
        return self.wall / median(time.wall for time in self.plain)

    @property
    def memory_ratio(self) -> float | None:
        if self.peak_mb is None or self.plain_peak_mb is None:
            return None
        return self.peak_mb / self.plain_peak_mb

    @property
    def words(self) -> int:
        """How many next words one step predicts."""
        return self.point.batch * (1 if self.point.measure == "decode" else self.point.length)

    def to_dict(self) -> Json:
        """JSON data, in seconds and MB."""
        point = self.point
        return {
            "shape": point.shape.name,
            "vocabulary": point.shape.vocabulary,
            "measure": point.measure,
            "batch": point.batch,
            "length": point.length,
            "source_length": point.source_length or None,
            "context": point.context,
            "scale": None if point.axis is None else {"axis": point.axis, "value": point.value},
            "method": self.variant.method,
            "path": self.variant.path,
            "cpu": {"median": self.cpu, "ratio": self.cpu_ratio, "times": [time.cpu for time in self.times]},
            "wall": {"median": self.wall, "ratio": self.wall_ratio, "times": [time.wall for time in self.times]},
            "memory": None if self.peak_mb is None else {"peak_mb": self.peak_mb, "ratio": self.memory_ratio},
            "at_most": {"time": self.limit.time, "memory": self.limit.memory},
        }


MEMORY_WORK = 3  # runs that a separate process costs: imports, a model, and the run


class Bench:
    """A run of the benchmark. `rows` holds what was measured, also after an interruption.

    `groups` replaces the cases that follow from the settings.
    """

    def __init__(
        self,
        settings: BenchSettings,
        *,
        report: Progress = lambda done, total, text: None,
        clock: Clock | None = None,
        peak: Callable[[Case], float] = peak_memory,
        groups: Sequence[CaseGroup] | None = None,
    ) -> None:
        self.settings = settings
        self.groups = plan(settings) if groups is None else list(groups)
        self.rows: list[Measurement] = []
        self.report, self.clock, self.peak = report, clock or SystemClock(), peak
        self.done = 0.0
        self.total = sum(self._work(group) for group in self.groups)
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
                self._measure(group)
        finally:
            self._models = None
            torch.set_num_threads(threads)
            logging.set_verbosity(verbosity)

    def _measure(self, group: CaseGroup) -> None:
        times: Times = {}
        peaks: dict[str, float] = {}
        try:
            self._time(group, times)
            if self.settings.memory:
                for variant in group.variants:
                    case = Case(
                        point=group.point,
                        variant=variant,
                        dtype=self.settings.dtype,
                        threads=self.settings.threads,
                    )
                    peaks[variant.name] = self.peak(case)
                    self._step(group, MEMORY_WORK, f"memory of {variant.name}")
        finally:
            self.rows += self._rows(group, times, peaks)

    def _time(self, group: CaseGroup, times: Times) -> None:
        alone = group.point.measure in HEAD
        models = self._of(group.point.shape)
        works = {v.name: work(models.model(v, head_alone=alone), group.point) for v in group.variants}
        take_turns(
            works,
            times,
            repeats=self.settings.repeats,
            clock=self.clock,
            order=self._order,
            done=lambda name: self._step(group, 1, name),
        )
        models.base.zero_grad(set_to_none=True)

    def _of(self, shape: Shape) -> Models:
        """The models of a shape; those of the previous shape are freed."""
        if self._models is None or self._models[0] != shape:
            self._models = None
            gc.collect()
            positions = max(group.point.positions for group in self.groups if group.point.shape == shape)
            self._models = (shape, Models(shape, positions=positions, dtype=self.settings.dtype))
        return self._models[1]

    def _rows(self, group: CaseGroup, times: Times, peaks: dict[str, float]) -> Iterator[Measurement]:
        plain = group.variants[0].name
        for variant in group.variants:
            if times.get(variant.name) and times.get(plain):
                yield Measurement(
                    point=group.point,
                    variant=variant,
                    times=tuple(times[variant.name]),
                    plain=tuple(times[plain]),
                    peak_mb=peaks.get(variant.name),
                    plain_peak_mb=peaks.get(plain),
                    limit=limit(group.point, variant, dtype=self.settings.dtype, threads=self.settings.threads),
                )

    def _step(self, group: CaseGroup, runs: float, text: str) -> None:
        self.done += runs * group.point.work
        point = group.point
        at = "" if point.axis is None else f" {point.axis}={point.value}"
        self.report(self.done, self.total, f"{point.shape.name} {point.title}{at}: {text}")

    def _work(self, group: CaseGroup) -> float:
        runs = 1 + self.settings.repeats + (MEMORY_WORK if self.settings.memory else 0)
        return group.point.work * len(group.variants) * runs
