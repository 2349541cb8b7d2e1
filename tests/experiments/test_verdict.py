"""The verdict says what the numbers say, both ways."""

from __future__ import annotations

import math

import pytest

from unbottle.experiments.demo_report import verdict


def windows(*losses: float) -> list[list[float]]:
    """Ten tokens each."""
    return [[10 * loss, 10] for loss in losses]


BASE = (2.0, 3.0, 2.5, 3.5, 2.2, 2.8)


def shifted(by: float) -> list[list[float]]:
    return windows(*(loss + by for loss in BASE))


def test_better_with_every_seed() -> None:
    found = verdict([shifted(0), shifted(0.1)], [shifted(-0.2), shifted(-0.1)])
    assert found.is_better
    assert found.wins == 2
    said = str(found)
    assert said.startswith("CPR is better here: perplexity ")
    softmax, cpr = (math.exp(sum(BASE) / 6 + by) for by in (0.05, -0.15))
    assert f"perplexity {cpr:.2f} against {softmax:.2f} of the softmax head (-18.1%)" in said
    assert "CPR won with 2 of 2 seeds." in said
    assert found.low == pytest.approx(-0.2)
    assert found.high == pytest.approx(-0.2)


def test_worse_with_every_seed() -> None:
    found = verdict([shifted(0)] * 3, [shifted(0.1)] * 3)
    assert not found.is_better
    assert str(found).startswith("CPR is NOT better here: ")
    assert "(+10.5%)" in str(found)
    assert "CPR won with 0 of 3 seeds." in str(found)


def test_equal_is_not_better() -> None:
    assert not verdict([shifted(0)], [shifted(0)]).is_better


def test_some_seeds_are_not_all() -> None:
    found = verdict([shifted(0)] * 3, [shifted(-0.1), shifted(0.01), shifted(-0.1)])
    assert (found.wins, found.is_better) == (2, False)
    assert str(found).startswith("It is undecided here: ")


def test_a_difference_that_other_text_could_undo() -> None:
    """Five windows a little worse, one much better: better in the mean, and not sure."""
    mixed = windows(*(loss + by for loss, by in zip(BASE, (0.1, 0.1, 0.1, 0.1, 0.1, -0.6), strict=True)))
    said = str(verdict([shifted(0)], [mixed]))
    assert said.startswith("CPR is slightly better here: ")
    assert "which includes no difference at all" in said
    assert "CPR won with the one seed that was tried: --seeds 3 tries more." in said


def test_one_window_has_no_interval() -> None:
    found = verdict([windows(2.0)], [windows(1.0)])
    assert (found.low, found.high) == (None, None)
    assert "95 %" not in str(found)
    assert found.to_dict()["said"] == str(found)
