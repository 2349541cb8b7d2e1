"""A short, fixed slice of the fuzz targets; `make fuzz` goes on from there with new draws."""

from __future__ import annotations

import time

import pytest
from fuzz_targets import TARGETS, in_time
from hypothesis import HealthCheck, given, settings

EXAMPLES = {
    "method": 150,
    "head config": 100,
    "settings": 60,
    "model config": 12,
    "data": 8,
    "checkpoint": 30,
    "explain": 25,
    "head": 60,
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_right_answer_or_one_sentence(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES[name],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(target.draws)
    def fuzzed(drawn: object) -> None:
        with in_time():
            target.check(drawn)

    fuzzed()


def test_other_errors_and_hangs_are_seen() -> None:
    """The fuzzer itself: it would say so."""
    from fuzz_targets import HangError, refusals

    for error in (KeyError("x"), RuntimeError("two\nlines"), ValueError("two\nlines"), ValueError("")):
        with pytest.raises((KeyError, RuntimeError, AssertionError)), refusals():
            raise error
    with refusals():
        raise ValueError("one sentence.")
    with pytest.raises(HangError, match="no answer in 1 seconds"), in_time(1):
        time.sleep(3)


def test_findings_stay_fixed() -> None:
    """What the fuzzer found once, by target."""
    for name, drawn in FINDINGS:
        TARGETS[name].check(drawn)


FINDINGS: list[tuple[str, object]] = []
