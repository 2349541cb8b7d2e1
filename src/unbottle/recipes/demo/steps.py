"""Steps: work that is done once, in order, and a progress that is true for all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Report = Callable[[float, float, str], None]  # work done, work in all, what was done last
REPORTED = 0.98  # of a step: something comes after its last report


@dataclass(frozen=True, kw_only=True)
class Step:
    """`seconds` is how long it should take, `is_done` looks for what it leaves behind."""

    title: str
    seconds: float
    is_done: Callable[[], bool]
    work: Callable[[Report], None]


def carry_out(
    steps: Sequence[Step], report: Report, *, now: Callable[[], float] = time.monotonic
) -> Iterator[tuple[str, float]]:
    """Every step that is not done yet, and after each the seconds that it took.

    What was done before does not count: the bar starts at 0, and what is left to do is all of it.
    """
    todo = [step for step in steps if not step.is_done()]
    total = sum(step.seconds for step in todo)
    before = 0.0
    for step in todo:
        started = now()
        report(before, total, step.title)
        step.work(part_of(_named(report, step.title), before, REPORTED * step.seconds, total))
        before += step.seconds
        yield step.title, now() - started
    if todo:
        report(total, total, "done")


def part_of(report: Report, before: float, work: float, total: float) -> Report:
    """A report on work that is part of a larger one, of which some was done before."""

    def inner(done: float, of: float, text: str) -> None:
        share = min(max(done / of, 0.0), 1.0) if of else 0.0
        report(before + share * work, total, text)

    return inner


def _named(report: Report, title: str) -> Report:
    return lambda done, total, text: report(done, total, f"{title}: {text}")
