"""cpu_medians: how long things take, in turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from unbottle.bench.rounds import SystemClock, Times, take_turns
from unbottle.bench.work import Work

ROUNDS = 15


def cpu_medians(runs: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds that all threads computed, the median of rounds in which each has its turn."""
    found: Times = {}
    works = {name: Work(lambda: None, run) for name, run in runs.items()}
    take_turns(works, found, repeats=ROUNDS, clock=SystemClock(), order=random.Random(0))
    return {name: sorted(time.cpu for time in each)[len(each) // 2] for name, each in found.items()}
