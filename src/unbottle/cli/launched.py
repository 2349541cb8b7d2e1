"""Whether a launcher (torchrun, accelerate launch) started this command more than once. Standard library only."""

from __future__ import annotations

import os


def processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def process_number() -> int:
    """Of this process among those of a command; the first is 0 and does all the talking."""
    return int(os.environ.get("RANK", "0")) if processes() > 1 else 0


def is_first() -> bool:
    return process_number() == 0
