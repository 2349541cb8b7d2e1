"""How far a command is and how long it still takes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Report = Callable[[float, float, str], None]  # work done, work in all, what was done last

QUIET_SECONDS = 10.0  # between plain lines


@contextmanager
def progress(stream: TextIO | None = None, *, now: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """A function that shows progress on stderr."""
    stream = sys.stderr if stream is None else stream
    started: list[float] = []

    def elapsed() -> float:
        """Since the first report: what was imported before says nothing about the work."""
        started[:] = started or [now()]
        return now() - started[0]

    if stream.isatty():
        with _bar(stream, elapsed) as report:
            yield report
    else:
        yield _lines(stream, elapsed)


def remaining(elapsed: float, done: float, total: float) -> str:
    """How long it still takes if it goes on as it went."""
    if done <= 0:
        return "remaining time not known yet"
    seconds = elapsed * (total - done) / done
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def _lines(stream: TextIO, elapsed: Callable[[], float]) -> Report:
    last = -QUIET_SECONDS

    def report(done: float, total: float, text: str) -> None:
        nonlocal last
        if elapsed() - last >= QUIET_SECONDS or done >= total:
            last = elapsed()
            left = remaining(last, done, total)
            print(f"{done / total:4.0%}  {text}  ({left})", file=stream, flush=True)

    return report


@contextmanager
def _bar(stream: TextIO, elapsed: Callable[[], float]) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None, left="")

        def report(done: float, total: float, text: str) -> None:
            left = remaining(elapsed(), done, total)
            bar.update(task, completed=done, total=total, description=text, left=left)

        yield report
