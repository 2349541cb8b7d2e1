"""run: measure what is planned, group by group."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence

import torch
from transformers.utils import logging

from unbottle.bench.case import HEAD, Case, Group
from unbottle.bench.limits import limit
from unbottle.bench.memory import peak_memory
from unbottle.bench.models import Models
from unbottle.bench.plan import plan
from unbottle.bench.rounds import Clock, SystemClock, Times, take_turns
from unbottle.bench.row import Row
from unbottle.bench.settings import Settings
from unbottle.bench.shape import Shape
from unbottle.bench.work import work

MEMORY_WORK = 3  # a process of its own: imports, a model, and the run

Report = Callable[[float, float, str], None]  # work done, work in all, what was done last


class Bench:
    """A run of the benchmark. `rows` are what was measured, also if it was interrupted.

    `groups` measures these instead of what follows from the settings.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        report: Report = lambda done, total, text: None,
        clock: Clock | None = None,
        peak: Callable[[Case], float] = peak_memory,
        groups: Sequence[Group] | None = None,
    ) -> None:
        self.settings = settings
        self.groups = plan(settings) if groups is None else list(groups)
        self.rows: list[Row] = []
        self.report, self.clock, self.peak = report, clock or SystemClock(), peak
        self.done = 0.0
        self.total = sum(self._work(group) for group in self.groups)
        self._order = random.Random(settings.seed)
        self._models: tuple[Shape, Models] | None = None

    def run(self) -> None:
        """Measure all groups. On Ctrl-C the rows of the group at work are kept, as far as they got."""
        threads, verbosity = torch.get_num_threads(), logging.get_verbosity()
        torch.set_num_threads(self.settings.threads)
        logging.set_verbosity_error()  # advice about models that nobody keeps
        try:
            for group in self.groups:
                self._step(group, 0, "starting")
                self._measure(group)
        finally:
            self._models = None
            torch.set_num_threads(threads)
            logging.set_verbosity(verbosity)

    def _measure(self, group: Group) -> None:
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

    def _time(self, group: Group, times: Times) -> None:
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
        """The models of a shape, built when the plan comes to it, dropped when it leaves."""
        if self._models is None or self._models[0] != shape:
            self._models = None
            gc.collect()
            positions = max(group.point.positions for group in self.groups if group.point.shape == shape)
            self._models = (shape, Models(shape, positions=positions, dtype=self.settings.dtype))
        return self._models[1]

    def _rows(self, group: Group, times: Times, peaks: dict[str, float]) -> Iterator[Row]:
        plain = group.variants[0].name
        for variant in group.variants:
            if times.get(variant.name) and times.get(plain):
                yield Row(
                    point=group.point,
                    variant=variant,
                    times=tuple(times[variant.name]),
                    plain=tuple(times[plain]),
                    peak_mb=peaks.get(variant.name),
                    plain_peak_mb=peaks.get(plain),
                    limit=limit(group.point, variant, dtype=self.settings.dtype, threads=self.settings.threads),
                )

    def _step(self, group: Group, runs: float, text: str) -> None:
        self.done += runs * group.point.work
        point = group.point
        at = "" if point.axis is None else f" {point.axis}={point.value}"
        self.report(self.done, self.total, f"{point.shape.name} {point.title}{at}: {text}")

    def _work(self, group: Group) -> float:
        runs = 1 + self.settings.repeats + (MEMORY_WORK if self.settings.memory else 0)
        return group.point.work * len(group.variants) * runs
