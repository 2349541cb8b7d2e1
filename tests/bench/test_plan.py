"""What is measured, and in which order."""

import pytest

from unbottle.bench.cases import HEAD, PLAIN, BenchSettings, Scale, plan
from unbottle.bench.run import Limit, limit
from unbottle.method import MethodError


def test_defaults_are_what_the_library_promises() -> None:
    """Every promise of the table stands in the plan of `unbottle bench`; those of time and of memory."""
    found = {}
    for group in plan(BenchSettings()):
        point = group.point
        assert group.variants[0].method == PLAIN
        for variant in group.variants:
            bound = limit(point, variant, dtype="float32", threads=2)
            if bound != Limit():
                found[point.shape.name, variant.method, point.title] = (bound.time, bound.memory)
    assert found == {
        ("gpt2", "softmax+cpr:20,100+mi", "forward"): (1.04, None),
        ("gpt2", "softmax+cpr:20,100+mi", "loss"): (0.98, None),
        ("gpt2", "softmax+cpr:20,100+mi", "train"): (1.0, 0.95),
        ("gpt2", "softmax+c+mi", "train"): (0.98, None),
        ("gpt2", "mos", "train"): (1.4, None),
        ("gpt2", "softmax+cpr:20,100+mi", "decode at 128"): (1.06, None),
        ("gpt2", "softmax+cpr:20,100+mi", "decode at 1024"): (1.08, None),
        ("t5-small", "softmax+cepr:20", "train"): (1.06, None),
    }


def test_sizes_of_the_promise() -> None:
    points = {group.point.shape.name: group.point for group in plan(BenchSettings())}
    assert (points["gpt2"].batch, points["gpt2"].length) == (4, 200)
    t5 = points["t5-small"]
    assert (t5.batch, t5.length, t5.source_length) == (8, 64, 512)


@pytest.mark.parametrize("change", [{"batch": 2}, {"length": 100}, {"dtype": "bfloat16"}, {"threads": 1}])
def test_no_promise_elsewhere(change: dict) -> None:
    settings = BenchSettings(shapes=("gpt2",), measures=("train",), **change)
    for group in plan(settings):
        for variant in group.variants:
            assert limit(group.point, variant, dtype=settings.dtype, threads=settings.threads) == Limit()


def test_dense_goes_beside_each_method() -> None:
    (group,) = plan(BenchSettings(shapes=("gpt2",), measures=("loss",), methods=("mos", "s + C"), against_dense=True))
    assert [variant.name for variant in group.variants] == [
        "plain", "mos", "mos (dense)", "softmax+c", "softmax+c (dense)",
    ]  # fmt: skip
    assert limit(group.point, group.variants[2], dtype="float32", threads=2) == Limit()


def test_scales() -> None:
    settings = BenchSettings(
        shapes=("gpt2",), measures=("train", "decode"), scales=(Scale("T", (64, 128)), Scale("k", (50, 200)))
    )
    points = [group.point for group in plan(settings) if group.point.axis == "T"]
    assert [(p.measure, p.length, p.context, p.value) for p in points] == [
        ("train", 64, None, 64), ("train", 128, None, 128), ("decode", 64, 64, 64), ("decode", 128, 128, 128),
    ]  # fmt: skip
    along_k = [group for group in plan(settings) if group.point.axis == "k" and group.point.measure == "train"]
    names = [[variant.method for variant in group.variants] for group in along_k]
    assert names == [["plain", "softmax+cpr:20,50+mi"], ["plain", "softmax+cpr:20,200+mi"]]
    along_V = plan(BenchSettings(shapes=("gpt2",), measures=("train",), scales=(Scale("V", (999, 2000)),)))
    assert [group.point.shape.vocabulary for group in along_V] == [999, 2000]
    along_B = plan(BenchSettings(shapes=("gpt2",), measures=("train",), scales=(Scale("B", (2, 8)),)))
    assert [group.point.batch for group in along_B] == [2, 8]


def test_head_is_all_of_the_head() -> None:
    assert BenchSettings(measures=("head", "head-loss", "train")).measures == (*HEAD, "train")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shapes": ("gpt3",)}, "shape 'gpt3': unknown. Known: gpt2, t5-small"),
        ({"measures": ("speed",)}, "measure 'speed': unknown. Known: forward"),
        ({"dtype": "int8"}, "dtype 'int8': unknown. Known: float32"),
        ({"repeats": 0}, "repeats 0: give a number of at least 1"),
        ({"batch": -1}, "batch -1: give"),
        ({"source_length": 0}, "source_length 0: give"),
        ({"source_length": 9, "shapes": ("gpt2",)}, "source length 9: gpt2 has no encoder"),
        ({"contexts": (2,)}, "context 2: give a number of at least 8"),
        ({"length": 1}, "length 1: a text of one word"),
        ({"scales": (Scale("T", (4,)),), "measures": ("decode",)}, "context 4: give a number of at least 8"),
        ({"methods": ("softmax+c",), "scales": (Scale("k", (4,)),)}, "scale k=4: none of softmax\\+c reranks"),
        ({"methods": ("softmax+e",), "shapes": ("gpt2",)}, "this model has no encoder"),
        ({"methods": ("softmax+r:9",), "scales": (Scale("V", (5,)),)}, "more than the 5 words"),
        ({"methods": ("sofmax",)}, "unknown base 'sofmax'"),
    ],
)
def test_refusals(settings: dict, said: str) -> None:
    with pytest.raises((ValueError, MethodError), match=said):
        plan(BenchSettings(**settings))
