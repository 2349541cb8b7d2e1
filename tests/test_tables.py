"""Tables are aligned, and estimates admit what one value cannot tell."""

import pytest

from unbottle.tables import Estimate, Table, number

TABLE = Table(["Method", "R1", "note"], [["S", "1.25", "a"], ["S + C", "10.5 ± 0.1", ""]])


def test_text() -> None:
    assert TABLE.text().splitlines() == [
        "Method          R1  note",
        "S             1.25  a",
        "S + C   10.5 ± 0.1",
    ]


def test_markdown_and_back() -> None:
    assert TABLE.markdown().splitlines() == [
        "| Method |         R1 | note |",
        "| ------ | ---------: | ---- |",
        "| S      |       1.25 | a    |",
        "| S + C  | 10.5 ± 0.1 |      |",
    ]
    assert TABLE.markdown(padded=False).splitlines()[:2] == ["| Method | R1 | note |", "| --- | --- | --- |"]
    assert Table.from_markdown(TABLE.markdown().splitlines()) == TABLE


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [(["-1.5", "+2%"], True), (["inf", "nan"], True), (["3 of 5", ""], True), (["1", "none"], False), (["-"], False)],
)
def test_columns_of_numbers_are_right_aligned(cells: list[str], numeric: bool) -> None:
    assert Table(["", "x"], [["1", cell] for cell in cells]).numeric == [False, numeric]


def test_numbers() -> None:
    assert [number(None), number(2.0), number(2.0, 4)] == ["", "2.00", "2.0000"]


def test_estimate_of_one_value_has_no_error() -> None:
    assert Estimate.of([3.0]).show() == "3.00"


def test_standard_error_by_hand() -> None:
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert estimate.mean == 2
    assert estimate.error == pytest.approx(1 / 3**0.5)  # the standard deviation is 1
    assert estimate.show(3) == "2.000 ± 0.577"
