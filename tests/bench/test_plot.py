"""The picture is drawn, bars and lines, and without matplotlib there is none."""

import sys
from pathlib import Path

import pytest
from tiny_shapes import TINY

from unbottle.bench.cases import BenchSettings, HeadVariant, Point
from unbottle.bench.report import save
from unbottle.bench.run import Measurement, machine
from unbottle.bench.timing import Time


def rows(axis: str | None) -> list[Measurement]:
    """Plain and one method; along a scale at three places, the method named after its k."""
    found = []
    for value in (10, 20, 40) if axis else (None,):
        point = Point(shape=TINY, measure="train", batch=2, length=9, axis=axis, value=value)
        for number, method in enumerate(("plain", f"softmax+r:{value}" if axis == "k" else "mos")):
            time = Time(1, 1 + number * (value or 7))
            found.append(
                Measurement(point=point, variant=HeadVariant(method=method), times=(time,), baseline=(Time(1, 1),))
            )
    return found


@pytest.mark.parametrize("axis", [None, "T", "k"])
def test_picture(axis: str | None, tmp_path: Path) -> None:
    written = save(tmp_path, rows(axis), BenchSettings(), machine())
    assert written[-1].name == "bench.png"
    assert written[-1].read_bytes().startswith(b"\x89PNG")


def test_lines_follow_a_method_whose_name_changes() -> None:
    from matplotlib.figure import Figure

    from unbottle.bench.report import bars, lines

    axes = Figure().subplots()
    lines(axes, rows("k"))
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}
    per_word = 1000 / 18
    assert drawn["softmax+r:k"] == ([10, 20, 40], pytest.approx([11 * per_word, 21 * per_word, 41 * per_word]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10", "20", "40"]
    assert drawn["plain"] == ([10, 20, 40], pytest.approx([per_word] * 3))

    axes = Figure().subplots()
    bars(axes, rows(None))
    assert [patch.get_height() for patch in axes.patches] == [8]


def test_many_methods_are_dots_beside_the_paper_s(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from unbottle.bench.report import MANY, ratios

    point = Point(shape=TINY, measure="forward", batch=2, length=9)
    many = [
        Measurement(
            point=point, variant=HeadVariant(method=f"mos:{number + 2}"), times=(Time(1, 2 + number),),
            baseline=(Time(1, 2),), paper_ratio=1.5 if number == 3 else None,
        )
        for number in range(MANY + 1)
    ]  # fmt: skip
    axes = Figure().subplots()
    ratios(axes, many)
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}
    assert drawn["forward"] == ([1 + number / 2 for number in range(MANY + 1)], list(range(MANY + 1)))
    assert drawn["paper"] == ([1.5], [3])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [f"mos:{number + 2}" for number in range(MANY + 1)]
    assert save(tmp_path, many, BenchSettings(), machine())[-1].read_bytes().startswith(b"\x89PNG")


def test_no_matplotlib_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "unbottle.bench.report", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    written = save(tmp_path, rows(None), BenchSettings(), machine())
    assert [path.name for path in written] == ["bench.md", "bench.json"]
