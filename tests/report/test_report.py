"""Tables are aligned, estimates honest about what one value can say, plots are written."""

import pytest

from unbottle.tables import Estimate, Table


def test_estimate_of_one_value_has_no_error() -> None:
    assert Estimate.of([3.0]).show() == "3.00"


def test_standard_error_by_hand() -> None:
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert estimate.mean == 2
    assert estimate.error == pytest.approx(1 / 3**0.5)  # the standard deviation is 1
    assert estimate.show(3) == "2.000 ± 0.577"


def test_table_is_aligned() -> None:
    assert Table(["Method", "R1"], [["S", "1.25"], ["S + C", "10.5"]]).markdown().splitlines() == [
        "| Method |   R1 |",
        "| ------ | ---: |",
        "| S      | 1.25 |",
        "| S + C  | 10.5 |",
    ]


def test_plots(tmp_path) -> None:
    plot = pytest.importorskip("unbottle.report.plots")
    one, two = Estimate.of([1.0, 1.2]), Estimate.of([0.9])
    plot.dots({"Softmax + Mi": one, "C": two}, tmp_path / "dots.png", label="perplexity", mark="Softmax + Mi")
    plot.curves({"C": [(1.0, one), (10.0, two)]}, tmp_path / "curves.png", x="size", y="loss")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("dots.png", "curves.png"))
