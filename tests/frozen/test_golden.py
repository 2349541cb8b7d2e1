"""Every method gives the numbers it gave when golden.json was written.

By default up to rounding, which differs between processors (1e-11 in float64); UNBOTTLE_EXACT=1 asks for the same bits,
which the machine that wrote the file gives with one thread.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from frozen import golden, models

STORED = json.loads(golden.FILE.read_text(encoding="utf-8"))
CASES = {case.name: case for case in golden.cases()}
EXACT = os.environ.get("UNBOTTLE_EXACT") == "1"
RELATIVE = {"fresh": 1e-11, "float64": 1e-11, "float32": 2e-5}
ABSOLUTE = {"fresh": 0.0, "float64": 1e-24, "float32": 1e-10}  # of sums of squares that are zero but for rounding


def assert_same(found: Any, stored: Any, kind: str, where: str) -> None:
    """Dictionaries, lists and numbers; names must be the same ones."""
    if isinstance(stored, dict):
        assert found.keys() == stored.keys(), where
        for name in stored:
            assert_same(found[name], stored[name], kind, f"{where}, {name}")
    elif isinstance(stored, list):
        assert len(found) == len(stored), where
        for place, value in enumerate(stored):
            assert_same(found[place], value, kind, f"{where}, {place}")
    elif EXACT:
        assert found == stored, where
    else:
        expected = pytest.approx(float.fromhex(stored), rel=RELATIVE[kind], abs=ABSOLUTE[kind])
        assert float.fromhex(found) == expected, where


def test_every_case_is_stored() -> None:
    assert list(CASES) == list(STORED["numbers"]) == list(STORED["tokens"])


@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_probabilities(name: str) -> None:
    found, stored = golden.numbers(CASES[name]), STORED["numbers"][name]
    assert found.keys() == stored.keys()
    for kind in stored:
        tolerance = kind if CASES[name].model in models.DOUBLE else "float32"
        assert_same(found[kind], stored[kind], tolerance, f"{name}, {kind}")


@pytest.mark.parametrize(
    "name", [name if case.quick else pytest.param(name, marks=pytest.mark.full) for name, case in CASES.items()]
)
def test_generated_tokens(name: str) -> None:
    assert golden.tokens(CASES[name]) == STORED["tokens"][name]
