"""Progress of work in phases, and warnings on one line."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from unbottle.cli.launched import is_first
from unbottle.cli.progress import Report, progress


@contextmanager
def phases() -> Iterator[Report]:
    """As `progress`, but when the work starts from 0 again, so does the estimate of the time it takes."""
    with ExitStack() as stack:
        shown: list[Report] = []
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


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings as people read them: no file names, no code."""

    def show(message: Any, category: Any, *args: Any, **kwargs: Any) -> None:
        if is_first():
            print(f"unbottle: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
