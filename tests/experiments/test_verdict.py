"""The verdict says what the numbers say, both ways."""

from __future__ import annotations

import pytest

from unbottle.experiments.demo import Verdict


def group(change: float, low: float, high: float, wins: int, seeds: int = 1) -> dict:
    return {
        "change": change,
        "low": low,
        "high": high,
        "wins": wins,
        "models": {"cpr": {"perplexity": [9.0] * seeds}},
    }


def verdict(softmax: list[float], cpr: list[float], text: dict) -> Verdict:
    contexts = {
        name: [{"perplexity": value} for value in values] for name, values in (("softmax", softmax), ("cpr", cpr))
    }
    return Verdict.of(contexts, {"names": group(-0.1, -0.2, -0.05, 1), "all": text, "new": group(0.08, 0.04, 0.11, 0)})


def test_better_on_both() -> None:
    found = verdict([20.0], [4.0], group(-0.03, -0.05, -0.01, 1))
    assert found.is_better == {"contexts": True, "text": True}
    said = str(found)
    assert said.startswith("CPR is better here, where two words are possible and on real text. ")
    assert "perplexity 4.0, 5.0 times lower than that of the softmax head (20.0)." in said
    assert (
        "perplexity -3.0% over all words (95 % interval -5.0% to -1.0%); -10.0% at names, +8.0% at new words." in said
    )
    assert said.endswith("With one seed; --thorough tries three.")
    assert found.to_dict()["ratio"] == pytest.approx(5)


def test_worse_on_both() -> None:
    said = str(verdict([4.0, 4.0], [8.0, 8.0], group(0.03, 0.01, 0.05, 0, 2)))
    assert said.startswith("CPR is NOT better here, where two words are possible and on real text. ")
    assert "2.0 times higher" in said
    assert said.endswith(" With 2 seeds.")


def test_text_that_other_text_could_undo() -> None:
    found = verdict([20.0], [4.0], group(-0.01, -0.03, 0.01, 1))
    assert found.is_better == {"contexts": True, "text": None}
    assert str(found).startswith(
        "CPR is better here where two words are possible, and neither better nor worse on real text."
    )


def test_some_seeds_are_not_all() -> None:
    found = verdict([20.0, 3.0], [4.0, 4.0], group(-0.03, -0.05, -0.01, 1, 2))
    assert found.is_better == {"contexts": None, "text": None}


def test_equal_is_not_better() -> None:
    assert verdict([4.0], [4.0], group(0.0, 0.0, 0.0, 0)).is_better == {"contexts": False, "text": None}
