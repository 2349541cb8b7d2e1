"""Medians, ratios, and the tables that show them."""

import pytest
from tiny_shapes import TINY

from unbottle.bench.cases import BenchSettings, Goal, HeadVariant, Point
from unbottle.bench.report import document
from unbottle.bench.run import Measurement
from unbottle.bench.timing import Time

MACHINE = {"processor": "A processor", "cores": 2, "system": "Linux", "versions": {"torch": "2"}}


def row(method: str = "softmax+c", axis: str | None = None, **changes: object) -> Measurement:
    point = Point(shape=TINY, measure="train", batch=2, length=50, axis=axis, value=50 if axis else None)
    given = {
        "times": (Time(3, 6), Time(900, 900), Time(1, 2), Time(2, 3)),
        "baseline": (Time(5, 4), Time(0.001, 0.001), Time(5, 5)),
        "goal": Goal(1.5, 0.5),
    }
    return Measurement(**{"point": point, "variant": HeadVariant(method=method)} | given | changes)


def test_ratio_of_medians() -> None:
    one = row()
    assert (one.cpu, one.wall) == (4.5, 2.5)
    assert one.cpu_ratio == pytest.approx(4.5 / 4)
    assert one.wall_ratio == pytest.approx(2.5 / 5)


def test_memory() -> None:
    assert row().memory_ratio is None
    assert row(peak_mb=30.0).memory_ratio is None
    assert row(peak_mb=30.0, baseline_peak_mb=20.0).memory_ratio == 1.5


def test_words() -> None:
    assert row().words == 100
    decode = Measurement(
        point=Point(shape=TINY, measure="decode", batch=2, length=50, context=16),
        variant=HeadVariant(), times=(Time(1, 1),), baseline=(Time(1, 1),),
    )  # fmt: skip
    assert decode.words == 2


def test_table() -> None:
    text = document([row(peak_mb=30.0, baseline_peak_mb=20.0)], BenchSettings(), MACHINE)
    heading, _, names, rule, values, *_ = text.splitlines()
    assert heading == "### tiny (vocabulary 61, batch 2, length 50)"
    assert cells(names) == [
        "measure", "method", "CPU ms", "CPU ratio", "wall ms", "wall ratio", "goal", "peak MB", "memory ratio",
        "goal",
    ]  # fmt: skip
    assert set(rule) <= set("|-: ")
    assert cells(values) == ["train", "softmax+c", "4500", "1.12", "2500", "0.50", "1.50", "30", "1.50", "0.50 missed"]
    assert len({len(names), len(rule), len(values)}) == 1


def test_goals_are_compared_with_the_wall_and_counted() -> None:
    """A ratio of 0.5 in wall time and 1.5 in memory."""
    memory = {"peak_mb": 30.0, "baseline_peak_mb": 20.0}
    assert "Goals" not in document([row(goal=Goal())], BenchSettings(), MACHINE)
    reached = [row(goal=Goal(0.5, 1.5), **memory), row(goal=Goal(0.5, 1.0))]
    assert "Goals (ratios of wall time and of memory): 3 of 3 reached.\n" in document(reached, BenchSettings(), MACHINE)
    text = document([row(goal=Goal(0.49, 1.4), **memory), row(goal=Goal(0.6))], BenchSettings(), MACHINE)
    assert "1 of 3 reached. Missed: tiny train softmax+c; memory of tiny train softmax+c.\n" in text
    assert "0.49 missed" in text
    assert "1.40 missed" in text


def test_generated_words() -> None:
    point = Point(shape=TINY, measure="generate", batch=2, length=50, context=16)
    assert row(point=point).words == 48
    assert point.title == "generate 16 + 24"


def test_a_gpu() -> None:
    settings = BenchSettings(device="cuda", dtype="bfloat16", compile=True)
    text = document([row(device="cuda")], settings, MACHINE)
    assert cells(text.splitlines()[2])[2:4] == ["GPU ms", "GPU ratio"]
    assert "bfloat16, compiled, cuda, 7 rounds. GPU: seconds between an event before" in text
    assert "the peak of torch's allocator" in text
    assert "CPU" not in text
    assert row(device="cuda").to_dict()["cuda"]["median"] == 4.5


def test_table_without_memory_and_limits() -> None:
    text = document([row(goal=Goal())], BenchSettings(), MACHINE)
    assert cells(text.splitlines()[2]) == ["measure", "method", "CPU ms", "CPU ratio", "wall ms", "wall ratio"]


def test_table_along_a_scale() -> None:
    heading, _, names, _, values, *_ = document([row(axis="T", goal=Goal())], BenchSettings(), MACHINE).splitlines()
    assert heading == "### tiny, T grows (vocabulary 61, batch 2)"
    assert cells(names)[1:5] == ["T", "method", "CPU ms", "CPU ms / word"]
    assert cells(values)[1:5] == ["50", "softmax+c", "4500", "45.0"]


def test_document_says_how_and_where() -> None:
    text = document([row()], BenchSettings(repeats=5), MACHINE)
    assert "float32, 2 threads, 5 rounds" in text
    assert "A processor, 2 cores, Linux; torch 2." in text
    assert "Interrupted" not in text
    assert "Interrupted: this is what was measured so far." in document(
        [row()], BenchSettings(), MACHINE, interrupted=True
    )
    assert document([], BenchSettings(), MACHINE) == "Nothing was measured."


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
