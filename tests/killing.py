"""A process that sends itself a signal where a test says."""

from __future__ import annotations

import os
import signal
from typing import Any


def kill_at(place: Any, name: str, count: int, number: signal.Signals = signal.SIGKILL) -> None:
    """At the call number `count` of the function `name` of a module or class. After SIGKILL it never happens."""
    original, left = getattr(place, name), [count]

    def counting(*args, **kwargs):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    setattr(place, name, counting)
