"""Intervals and p values do what their names promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unbottle.eval import bootstrap
from unbottle.eval.bootstrap import CorpusStatistic, RatioStatistic, Resampling, difference_interval, interval, p_value

MANY = Resampling(rounds=4000)


def normal(number: int, shift: float, seed: int) -> list[float]:
    return [*map(float, np.random.default_rng(seed).normal(shift, 1, number))]


def test_the_interval_of_a_mean_is_as_wide_as_theory_says() -> None:
    values = normal(400, 0, 0)
    low, high = interval(RatioStatistic.mean(values), MANY)
    half = 1.96 * np.std(values) / 20
    assert (low, high) == pytest.approx((np.mean(values) - half, np.mean(values) + half), abs=0.06 * half)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for seed in range(200):
        low, high = interval(RatioStatistic.mean(normal(60, 0, seed)), Resampling(rounds=200, seed=seed))
        held += low < 0 < high
    assert 180 <= held <= 199


def test_p_is_that_of_all_swaps() -> None:
    first, second = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0], [2.0, 0.0, 1.0, 3.0, 1.0, 2.0]
    pairs = [*zip(first, second, strict=True)]
    seen = abs(np.mean(first) - np.mean(second))
    signs = itertools.product((1, -1), repeat=6)
    sums = [abs(np.mean([s * (a - b) for s, (a, b) in zip(sign, pairs, strict=True)])) for sign in signs]
    exact = np.mean([total >= seen - 1e-12 for total in sums])
    assert p_value(RatioStatistic.mean(first), RatioStatistic.mean(second), MANY) == pytest.approx(exact, abs=0.02)


def test_p_is_even_where_there_is_no_difference() -> None:
    found = [
        p_value(
            RatioStatistic.mean(normal(40, 0, seed)),
            RatioStatistic.mean(normal(40, 0, 1000 + seed)),
            Resampling(rounds=100, seed=seed),
        )
        for seed in range(200)
    ]
    assert 0.01 <= np.mean([p <= 0.05 for p in found]) <= 0.1
    assert np.mean(found) == pytest.approx(0.5, abs=0.08)


def test_two_sided_paired_and_reproducible() -> None:
    base = normal(100, 0, 3)
    first, second = RatioStatistic.mean([value + 0.1 for value in base]), RatioStatistic.mean([*base])
    assert p_value(first, second, MANY) == p_value(second, first, MANY) == 1 / 4001
    low, high = difference_interval(first, second, MANY)
    assert (low, high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert p_value(second, second, MANY) == 1.0


def test_examples_that_say_nothing() -> None:
    first, second = RatioStatistic.mean([1.0, None, 0.5, None]), RatioStatistic.mean([None, 1.0, 0.5, None])
    assert first.value == 0.75
    assert first.values == [1.0, None, 0.5, None]
    assert first.counted == 2
    assert p_value(first, second, MANY) == 1.0
    assert p_value(first, RatioStatistic.mean([None] * 4), MANY) is None
    assert interval(RatioStatistic.mean([1.0, None]), MANY) is None
    low, high = interval(first, MANY)
    assert (low, high) == (0.5, 1.0)  # rounds that draw neither are left out


def test_a_ratio_is_one_of_sums() -> None:
    ratio = RatioStatistic(numerators=(1.0, 3.0), denominators=(2.0, 2.0))
    assert ratio.value == 1.0
    low, high = interval(ratio, MANY)
    assert (low, high) == (0.5, 1.5)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio, other = RatioStatistic.mean(normal(30, 0, 0)), RatioStatistic.mean(normal(30, 0.3, 1))
    before = interval(ratio, MANY), p_value(ratio, other, MANY)
    monkeypatch.setattr(bootstrap, "BLOCK", 1000)
    assert (interval(ratio, MANY), p_value(ratio, other, MANY)) == before


def test_a_number_of_the_corpus() -> None:
    values = normal(50, 2, 0)
    sums = np.array([values, np.ones(50)]).T
    corpus = CorpusStatistic(
        value=float(np.mean(values)), counted=50, rows=sums, of_sums=lambda rows: rows[:, 0] / rows[:, 1]
    )
    ratio, other = RatioStatistic.mean(values), RatioStatistic.mean(normal(50, 2.2, 1))
    assert interval(corpus, MANY) == pytest.approx(interval(ratio, MANY))
    assert p_value(corpus, other, MANY) == p_value(ratio, other, MANY)
    never = CorpusStatistic(value=1.0, counted=50, reason="never")
    assert interval(never, MANY) is p_value(never, never, MANY) is difference_interval(never, ratio, MANY) is None


@pytest.mark.parametrize(("settings", "said"), [({"rounds": 5}, "rounds 5: expected 20"), ({"seed": -1}, "seed -1")])
def test_refusals(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Resampling(**settings)
