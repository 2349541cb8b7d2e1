"""quiet: the bars and logs of transformers stay out of the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

# FSDP2 warns of views that are changed in place. T5's blocks return one, the bias of positions, and nothing changes it.
HARMLESS = r"FSDP2-wrapped module \(FSDPT5Block\) returned a view"


@contextmanager
def quiet() -> Iterator[None]:
    """No bars but ours. The Trainer sets the level of all logs of transformers; here only for its own time."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=HARMLESS)
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
