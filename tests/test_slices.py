"""Slices of large matrices: every pair of values meets in one of their rows."""

from __future__ import annotations

import itertools

from cases import every_method
from slices import covering, pairs

GRID = [dict(zip("abc", values, strict=True)) for values in itertools.product(range(4), range(3), "xyz")]


def test_every_pair_is_covered_by_few_rows() -> None:
    kept = covering(GRID)
    assert set().union(*(pairs(GRID[index]) for index in kept)) == set().union(*map(pairs, GRID))
    assert 12 <= len(kept) <= 15  # 12 pairs of a and b; all rows are 36


def test_a_method_is_its_parts() -> None:
    rows = [
        {"method": method, "encoder_decoder": kind, "path": path}
        for method, kind in every_method()
        for path in ("whole", "tokens")
    ]
    kept = [rows[index] for index in sorted(covering(rows))]
    assert len(kept) < len(rows) / 3
    for base in ("softmax", "mos:2", "pg", "ps", "copynet"):
        for path in ("whole", "tokens"):
            assert any(row["method"].startswith(base) and row["path"] == path for row in kept)
    for letters in itertools.combinations("cepri", 2):
        in_any = [row for row in rows if has(row, letters)]
        assert not in_any or any(has(row, letters) for row in kept), letters


def has(row: dict, letters: tuple[str, ...]) -> bool:
    from unbottle.method import Method

    return set(letters) <= set(Method.parse(row["method"]).letters)


def test_one_column_keeps_every_value_and_values_without_a_hash_count() -> None:
    assert len(covering([{"name": str(number)} for number in range(50)])) == 50
    assert len(covering([{"rows": [1, 2]}, {"rows": [1, 2]}, {"rows": [3]}])) == 2


def test_the_same_slice_every_time() -> None:
    assert covering(GRID) == covering(list(GRID))
