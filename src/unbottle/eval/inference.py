"""Where a model is evaluated.

A model that is asked, not trained: as it was again afterwards.

Without the log of other libraries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def best_device() -> str:
    """A GPU if there is one, else the processor."""
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


@contextmanager
def evaluating(*models: Any) -> Iterator[None]:
    """No gradients and no dropout inside; every module's own mode comes back, whatever happens."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


LOUD = ("huggingface_hub", "transformers")


@contextmanager
def quiet_logging() -> Iterator[None]:
    """What goes wrong is raised, and need not be told by a log, try after try, as well."""
    levels = {name: logging.getLogger(name).level for name in LOUD}
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
