"""without_bars: a library of Hugging Face shows no bars for a while, and afterwards is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_bars(logging: Any, level: int | None = None) -> Iterator[None]:
    """`logging` is that of transformers.utils or of datasets: they have the same functions. `level` is its own for
    the time being; without one, whoever changes it in the block changes it for the block alone."""
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    if level is not None:
        logging.set_verbosity(level)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
