"""Rounds: the variants take turns, so that a busy machine is busy for all of them."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from unbottle.bench.work import Work


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
    gc.freeze()  # what is there already is not looked at again: to collect takes no time from here on
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
    """The time of one step. Garbage is collected before, not meanwhile."""
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
    del result  # to free what was computed is not part of computing it
    return Time(wall / work.steps, cpu / work.steps)
