"""Fuzz the method language, configs, data files, checkpoints, explain and the head, for as long as you like.

    make fuzz MINUTES=60
    PYTHONPATH=tests python scripts/fuzz.py --minutes 60 --only head

In turns, with new draws each time. What breaks is printed, made as small as hypothesis can make it, and kept in
.hypothesis to be tried first the next time; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback

import torch
from fuzz_targets import TARGETS, Target, in_time
from hypothesis import HealthCheck, given, settings
from hypothesis.database import DirectoryBasedExampleDatabase

ROUND = 200  # examples of a target in a row
KEPT = DirectoryBasedExampleDatabase(".hypothesis/fuzz")


def fuzz(target: Target, examples: int) -> int:
    """How many were tried; raises what went wrong."""
    tried = 0

    @settings(
        max_examples=examples, derandomize=False, database=KEPT, deadline=None, suppress_health_check=[*HealthCheck],
        print_blob=False,
    )  # fmt: skip
    @given(target.draws)
    def fuzzed(drawn: object) -> None:
        nonlocal tried
        tried += 1
        with in_time():
            target.check(drawn)

    fuzzed()
    return tried


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", choices=[*TARGETS], help="one target")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = [options.only] if options.only else [*TARGETS]
    tried, broken = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    until = time.monotonic() + 60 * options.minutes
    for name in itertools.takewhile(lambda _: time.monotonic() < until, itertools.cycle(names)):
        examples = ROUND if name not in ("data", "model config") else ROUND // 10
        try:
            tried[name] += fuzz(TARGETS[name], examples)
        except KeyboardInterrupt:
            break  # what was tried counts
        except BaseException:
            broken[name] += 1
            print(f"\n== {name}\n", file=sys.stderr)
            traceback.print_exc()
    for name in names:
        print(f"{name:13} {tried[name]:9,} tried, {broken[name]} rounds found something")
    return 1 if any(broken.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
