"""Plots are written."""

import pytest

from unbottle.tables import Estimate


def test_plots(tmp_path) -> None:
    plot = pytest.importorskip("unbottle.report.plots")
    one, two = Estimate.of([1.0, 1.2]), Estimate.of([0.9])
    plot.dots({"Softmax + Mi": one, "C": two}, tmp_path / "dots.png", label="perplexity", mark="Softmax + Mi")
    plot.curves({"C": [(1.0, one), (10.0, two)]}, tmp_path / "curves.png", x="size", y="loss")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("dots.png", "curves.png"))
