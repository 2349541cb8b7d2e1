"""Variants take turns, and their times are those of the clock."""

from __future__ import annotations

import gc
import random
from collections import Counter

import pytest
import torch

from unbottle.bench.cases import Execution
from unbottle.bench.timing import CudaClock, SystemClock, Time, Work, clock_of, take_turns


class FakeClock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = Time(100.0, 7.0)

    def start(self) -> None:
        self.started = self.now

    def stop(self) -> Time:
        return Time(self.now.wall - self.started.wall, self.now.cpu - self.started.cpu)

    def pass_by(self, wall: float, cpu: float) -> None:
        self.now = Time(self.now.wall + wall, self.now.cpu + cpu)


def works(clock: FakeClock, log: list[str]) -> dict[str, Work]:
    """Three works: they log their name, and preparing costs time that must not be counted."""

    def make(name: str, wall: float, cpu: float, steps: int) -> Work:
        return Work(
            prepare=lambda: clock.pass_by(1000, 1000),
            run=lambda: (log.append(name), clock.pass_by(wall, cpu)),
            steps=steps,
        )

    return {"plain": make("plain", 2, 4, 1), "c": make("c", 3, 5, 1), "decode": make("decode", 8, 16, 4)}


def test_times_are_those_of_the_clock() -> None:
    clock, times = FakeClock(), {}
    take_turns(works(clock, []), times, repeats=3, clock=clock, order=random.Random(0))
    assert times == {"plain": [Time(2, 4)] * 3, "c": [Time(3, 5)] * 3, "decode": [Time(2, 4)] * 3}


def test_interleaving() -> None:
    """Round by round, all of them, the first to warm up; the order changes, and a seed decides it."""
    clock, log, done, times = FakeClock(), [], [], {}
    take_turns(works(clock, log), times, repeats=9, clock=clock, order=random.Random(0), done=done.append)
    rounds = [tuple(log[i : i + 3]) for i in range(0, len(log), 3)]
    assert len(rounds) == 10
    assert all(Counter(names) == Counter(["plain", "c", "decode"]) for names in rounds)
    assert len(set(rounds)) > 2
    assert done == log
    assert {len(found) for found in times.values()} == {9}
    again: list[str] = []
    take_turns(works(clock, again), {}, repeats=9, clock=clock, order=random.Random(0))
    assert again == log


def test_an_interrupted_run_keeps_what_it_measured() -> None:
    clock, times, count = FakeClock(), {}, iter(range(100))

    def interrupt() -> None:
        if next(count) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_turns(
            {"a": Work(lambda: None, interrupt)}, times, repeats=9, clock=clock, order=random.Random(0)
        )  # fmt: skip
    assert len(times["a"]) == 3  # four runs came through, one of them to warm up
    assert gc.isenabled()


def test_garbage_waits() -> None:
    seen = []
    work = Work(lambda: None, lambda: seen.append(gc.isenabled()))
    take_turns({"a": work}, {}, repeats=1, clock=FakeClock(), order=random.Random(0))
    assert seen == [False, False]
    assert gc.isenabled()


def test_the_system_clock_counts_work_not_sleep() -> None:
    import time

    clock = SystemClock()
    clock.start()
    time.sleep(0.2)
    found = clock.stop()
    assert found.wall >= 0.2
    assert found.cpu < 0.1


def test_the_clock_follows_the_device() -> None:
    assert isinstance(clock_of(Execution()), SystemClock)
    assert isinstance(clock_of(Execution(device="cuda")), CudaClock)


def test_the_clock_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events around the step; the GPU is waited for before the first and after the last, and then the wall is read."""
    log: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")
            self.place = len(log)

        def elapsed_time(self, other: Event) -> float:
            assert log[-1] != "record", "events are read when the GPU is done"
            return 1000.0 * (other.place - self.place)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    monkeypatch.setattr("time.perf_counter", lambda: log.append("wall") or float(len(log)))
    times: dict[str, list[Time]] = {}
    take_turns(
        {"a": Work(lambda: None, lambda: log.append("run"), steps=2)}, times, repeats=1, clock=CudaClock(),
        order=random.Random(0),
    )  # fmt: skip
    assert log == ["wait", "wall", "record", "run", "record", "wait", "wall"] * 2
    assert times == {"a": [Time(wall=2.5, cpu=1.0)]}
