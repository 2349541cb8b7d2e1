"""Plots are written."""

import pytest

from unbottle.tables import Estimate


def test_plots(tmp_path) -> None:
    plot = pytest.importorskip("unbottle.report.plots")
    one, two = Estimate.of([1.0, 1.2]), Estimate.of([0.9])
    panel = plot.Panel(title="perplexity", values={"Softmax + Mi": one, "C": two}, paper={"paper": {"C": 1.1}})
    plot.panels([panel] * 5, tmp_path / "panels.png", title="Results", label="%", zero=True)
    lines = {"Softmax + Mi": [(1.0, one)], "C": [(1.0, one), (10.0, two)]}
    for paper in ({}, {"C": [(124.0, two)]}):
        plot.curves(lines, paper, tmp_path / f"curves{len(paper)}.png", title="Loss", x="size", y="loss")
    pictures = [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))]
    assert len(pictures) == 3
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    width = [int.from_bytes(picture[16:20], "big") for picture in pictures]
    assert width[1] > width[0], "the paper has a panel of its own"
