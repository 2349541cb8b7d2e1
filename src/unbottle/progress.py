"""Progress of long work: a bar on a terminal, plain lines elsewhere, shown by the first process only."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

Progress = Callable[[float, float, str], None]  # work done, total work, what was done last

QUIET_SECONDS = 10.0  # between plain lines


def silent(done: float, total: float, text: str) -> None:
    """Report no progress."""


def processes() -> int:
    """How many processes torchrun or accelerate started for this command."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def process_number() -> int:
    """The rank of this process; rank 0 prints."""
    return int(os.environ.get("RANK", "0")) if processes() > 1 else 0


def is_first() -> bool:
    return process_number() == 0


@contextmanager
def progress(stream: TextIO | None = None, *, now: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """A function that shows progress on stderr or another stream."""
    stream = sys.stderr if stream is None else stream
    started: list[float] = []

    def elapsed() -> float:
        """Seconds since the first report, so that imports do not count."""
        started[:] = started or [now()]
        return now() - started[0]

    if stream.isatty():
        with _bar(stream, elapsed) as report:
            yield report
    else:
        yield _lines(stream, elapsed)


def remaining(elapsed: float, done: float, total: float) -> str:
    """An estimate of the remaining time, once a hundredth of the work is done: before, it would be hours off."""
    if done < total / 100 or done <= 0:
        return "remaining time not known yet"
    return f"{duration(elapsed * (total - done) / done)} left"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _lines(stream: TextIO, elapsed: Callable[[], float]) -> Progress:
    last = -QUIET_SECONDS

    def report(done: float, total: float, text: str) -> None:
        nonlocal last
        if elapsed() - last >= QUIET_SECONDS or done >= total:
            last = elapsed()
            left = remaining(last, done, total)
            print(f"{done / total:4.0%}  {text}  ({left})", file=stream, flush=True)

    return report


@contextmanager
def _bar(stream: TextIO, elapsed: Callable[[], float]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None, left="")

        def report(done: float, total: float, text: str) -> None:
            left = remaining(elapsed(), done, total)
            bar.update(task, completed=done, total=total, description=text, left=left)

        yield report


@contextmanager
def phases() -> Iterator[Progress]:
    """Like `progress` for work in several phases: the estimate restarts when the work starts from 0 again."""
    with ExitStack() as stack:
        shown: list[Progress] = []
        last = math.inf

        def report(done: float, total: float, text: str) -> None:
            nonlocal last
            if not is_first():
                return
            if done < last:
                stack.close()
                shown[:] = [stack.enter_context(progress())]
            last = done
            shown[0](done, total, text)

        yield report


def portion(progress: Progress, start: float, weight: float, total: float) -> Progress:
    """A progress whose whole range is shown as the part of another one from `start` to `start + weight` of `total`."""

    def inner(done: float, of: float, text: str) -> None:
        share = min(max(done / of, 0.0), 1.0) if of else 0.0
        progress(start + share * weight, total, text)

    return inner


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print warnings as one line each, without file names and code."""

    def show(message: Warning | str, *args: object, **kwargs: object) -> None:
        if is_first():
            print(f"unbottle: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
