"""Where tensors live: a CPU has caches and cheap branches, an accelerator launches and a host that must not wait."""

from __future__ import annotations

import torch

FORCED = False  # tests run the path of accelerators on CPU tensors
ACCELERATED = 8  # times as many numbers at once where every launch costs


def is_accelerator(device: torch.device) -> bool:
    """Whether work on this device is queued: nobody may look at its values, and few large steps are best."""
    return FORCED or device.type not in ("cpu", "meta")


def at_once(numbers: int, device: torch.device, times: int = ACCELERATED) -> int:
    """How many numbers to work on at once: `numbers` on a CPU, `times` as many where every launch costs."""
    return numbers * times if is_accelerator(device) else numbers
