"""What docs/evidence.md says of results: no row is better by luck, by one seed of several, or by what broke."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from evidence_runs import NAMES, Run

BASELINE, CPR, PAPER = "softmax+mi form=steady", "softmax+cpr:20,100+mi form=steady", "softmax+cpr:20,100+mi form=paper"
BASE = (2.0, 3.0, 2.5, 3.5, 2.2, 2.8)


def found(by: float) -> dict:
    loss = sum(BASE) / len(BASE) + by
    windows = [[10 * (each + by), 10] for each in BASE]
    return {"loss": loss, "perplexity": math.exp(loss), "context": 2.0, "proper noun": None, "windows": windows}


def run(folder: Path, rows: dict[str, dict[int, float | None]]) -> Run:
    """By how much each seed of a row is above the baseline; None is a training that broke."""
    made = [
        {"method": method, "seed": seed, "size": "m", "found": {"broken": "exploded"} if by is None else found(by)}
        for method, seeds in rows.items()
        for seed, by in seeds.items()
    ]
    place = folder / next(iter(NAMES)) / "wikitext-2-head"
    place.mkdir(parents=True)
    settings = {"preset": {"train_tokens": 1000, "test_tokens": 60}, "data": "wikitext-2"}
    (place / "results.json").write_text(json.dumps({"settings": settings, "rows": made}))
    (place / "table.md").write_text("learning rate 0.1 unless\n`unbottle compare --model m --method plain`\n")
    return Run(place)


def test_better_and_worse_with_every_seed(tmp_path: Path) -> None:
    made = run(tmp_path, {CPR: {0: -0.2, 1: -0.1}, BASELINE: {0: 0.0, 1: 0.0}, "softmax": {0: 0.1, 1: 0.2}})
    assert list(made.rows) == ["softmax", BASELINE, CPR], "in the order of the command, whoever was first"
    said = made.verdict()
    assert "Better: Softmax + CPR:20,100 + Mi, steady. Worse: Softmax." in said
    assert "no clear difference" not in said.lower()
    assert "Learning rate 0.1, 2 seeds, 1,000 training tokens, 60 held-out tokens." in said
    assert made.beside(CPR)[2] == "2 of 2"


def test_one_lucky_seed_is_not_better(tmp_path: Path) -> None:
    made = run(tmp_path, {BASELINE: {0: 0.0, 1: 0.0}, CPR: {0: -0.5, 1: 0.1}})
    assert made.together[CPR]["high"] < 0, "the interval alone would say so"
    assert "No clear difference: Softmax + CPR:20,100 + Mi, steady." in made.verdict()


def test_what_broke_with_a_seed_is_broken(tmp_path: Path) -> None:
    made = run(tmp_path, {BASELINE: {0: 0.0, 1: 0.0}, CPR: {0: -0.1, 1: -0.1}, PAPER: {0: None, 1: -0.9}})
    assert "Diverged: Softmax + CPR:20,100 + Mi, paper." in made.verdict()
    assert made.best() == CPR, "not what is left of the broken one"
    assert made.differences(PAPER) == [pytest.approx(-0.9)]


def test_the_lowest_is_by_seeds_that_both_have(tmp_path: Path) -> None:
    """Seed 0 is easier for all: a row that has no other is not lower for it."""
    made = run(tmp_path, {BASELINE: {0: -0.5, 1: 0.5}, "softmax": {0: -0.45}, CPR: {0: -0.6, 1: 0.4}})
    assert made.best() == CPR
    assert made.cpr() == CPR


def test_a_baseline_that_broke(tmp_path: Path) -> None:
    made = run(tmp_path, {BASELINE: {0: 0.0, 1: None}, CPR: {0: -0.1, 1: -0.1}})
    assert made.difference(CPR) == pytest.approx(-0.1)
    assert "Better: Softmax + CPR:20,100 + Mi, steady." in made.verdict()
