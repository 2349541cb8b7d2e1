"""Without the log of other libraries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOUD = ("huggingface_hub", "transformers")


@contextmanager
def quietly() -> Iterator[None]:
    """What goes wrong is raised, and need not be told by a log, try after try, as well."""
    levels = {name: logging.getLogger(name).level for name in LOUD}
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
