"""Figures of experiments: what their panels contain."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbottle.experiments.compare import comparison_experiment
from unbottle.experiments.figures import MetricPanels
from unbottle.experiments.results import ResultRow


def row(method: str, seed: int, perplexity: float, cpu: float) -> ResultRow:
    return ResultRow(method, seed, "small", {"perplexity": perplexity, "cpu": cpu})


ROWS = [
    ResultRow("plain", 0, "small", {"perplexity": 50.0}),
    row("softmax+mi", 0, 20.0, 10.0),
    row("softmax+mi", 1, 40.0, 10.0),
    row("softmax+c+mi", 0, 18.0, 12.0),
    row("softmax+c+mi", 1, 38.0, 12.0),
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict:
    found: dict = {}

    def panels(contents, path, **options) -> None:
        found.update({panel.title: panel for panel in contents}, options=options)

    monkeypatch.setattr("unbottle.report.plots.panels", panels)
    return found


def test_differences_are_taken_seed_by_seed_and_untrained_models_left_out(drawn: dict, tmp_path: Path) -> None:
    comparison = comparison_experiment(
        ("plain", "softmax+mi", "softmax+c+mi"), "text-head", title="A", command="", lr=1.0, baseline="softmax+mi"
    )
    comparison.plot(ROWS, tmp_path / "plot.png", {})
    gain, cost = drawn["perplexity"].values, drawn["training time"].values
    assert [*gain] == [*cost] == ["Softmax + Mi", "Softmax + C + Mi"]
    assert gain["Softmax + C + Mi"].mean == pytest.approx((-10 - 5) / 2)
    assert gain["Softmax + Mi"].mean == 0
    assert cost["Softmax + C + Mi"].mean == pytest.approx(20)
    assert "of words of the context" not in drawn  # nobody measured it
    assert drawn["options"] == {"title": "A", "label": "difference to Softmax + Mi, %", "zero": True, "log": False}


def test_without_the_baseline_values_are_shown_as_they_are(drawn: dict, tmp_path: Path) -> None:
    paper = {"small": {"softmax+c+mi": {"Wiki": 23.5}}}
    MetricPanels("B", {"perplexity": ("perplexity", ("Wiki",))})(ROWS[-2:], tmp_path / "plot.png", paper)
    assert drawn["perplexity"].values["Softmax + C + Mi"].mean == 28
    assert drawn["perplexity"].paper["paper"] == {"Softmax + C + Mi": 23.5}
    assert (drawn["options"]["zero"], drawn["options"]["label"]) == (False, "")


def test_shares_are_plain_differences_and_methods_may_be_left_out(drawn: dict, tmp_path: Path) -> None:
    rows = [ResultRow(method, 0, "small", {"r1p": value}) for method, value in (("softmax", 0.0), ("ps", 0.25))]
    paper = {"small": {"softmax": {"R1P": 0.5}, "ps": {"R1P": 0.625}, "pg": {"R1P": 0.7}}}
    panels = MetricPanels("D", {"R1P": ("r1p", ("R1P",))}, baseline="softmax", plain=("R1P",), left_out=("pg",))
    panels([*rows, ResultRow("pg", 0, "small", {"r1p": 0.9})], tmp_path / "plot.png", paper)
    panel = drawn["R1P, difference"]
    assert {name: value.mean for name, value in panel.values.items()} == {"Softmax": 0.0, "PS": 0.25}
    assert panel.paper["paper"] == {"Softmax": 0.0, "PS": 0.125}
    assert "not in percent" in drawn["options"]["label"]


def test_the_paper_s_differences_stand_beside(drawn: dict, tmp_path: Path) -> None:
    paper = {"small": {"softmax+mi": {"Wiki": 25.0}, "softmax+c+mi": {"Wiki": 24.0}}}
    MetricPanels("C", {"perplexity": ("perplexity", ("Wiki",))})(ROWS, tmp_path / "plot.png", paper)
    assert drawn["perplexity"].paper["paper"]["Softmax + C + Mi"] == pytest.approx(-4)
