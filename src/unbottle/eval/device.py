"""Where a model is evaluated."""

from __future__ import annotations

import torch


def best_device() -> str:
    """A GPU if there is one, else the processor."""
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
