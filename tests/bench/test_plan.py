"""What is measured, and in which order."""

import pytest

from unbottle.bench.cases import HEAD, PLAIN, BenchSettings, Execution, Goal, Scale, goal, plan, plan_goals
from unbottle.method import MethodError

GOALS = {
    ("gpt2", "train"): {"softmax+c": 0.87, "softmax+cpr:20,100": 0.93, "softmax+cpr:20,100+mi": 0.98, "mos+mi": 1.4},
    ("gpt2", "loss"): {"softmax+c": 0.90, "softmax+cpr:20,100": 0.95, "softmax+cpr:20,100+mi": 1.02},
    ("gpt2", "loss, no logits"): {"softmax+c": 0.75, "softmax+cpr:20,100": 0.77, "softmax+cpr:20,100+mi": 0.79},
    ("gpt2", "generate 128 + 24"): {"softmax+c": 1.03, "softmax+cpr:20,100": 1.06, "softmax+cpr:20,100+mi": 1.13},
    ("vocab-152k", "train"): {"softmax+cpr:20,100+mi": 0.92},
    ("vocab-152k", "decode at 128"): {"softmax+cpr:20,100+mi": 1.1},
}  # fmt: skip


def test_goals() -> None:
    """The preset measures exactly what has a goal, at the sizes of the goals; training has one for memory too."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for group in plan_goals():
        point = group.point
        assert group.variants[0].method == PLAIN
        assert goal(point, group.variants[0], Execution()) == Goal()
        assert group.memory == (point.measure == "train")
        for variant in group.variants[1:]:
            wanted = goal(point, variant, Execution())
            assert wanted.memory == (1.0 if point.measure == "train" else None)
            if wanted.time is not None:
                found.setdefault((point.shape.name, point.title), {})[variant.method] = wanted.time
        assert point.batch == (8 if point.shape.encoder_decoder else 1 if point.context else 4)
        assert point.length == (64 if point.shape.encoder_decoder else 200)
    assert found == GOALS


def test_defaults_measure_what_has_goals() -> None:
    """Those of the shapes that are measured by default."""
    shown = {
        (group.point.shape.name, group.point.title, variant.method)
        for group in plan(BenchSettings())
        for variant in group.variants
    }
    assert {(*case, method) for case, wanted in GOALS.items() for method in wanted if case[0] == "gpt2"} <= shown


@pytest.mark.parametrize(
    "change",
    [{"batch": 2}, {"length": 100}, {"dtype": "bfloat16"}, {"threads": 1}, {"autocast": True}, {"compile": True},
     {"device": "cuda"}],
)  # fmt: skip
def test_no_goal_elsewhere(change: dict) -> None:
    settings = BenchSettings(shapes=("gpt2",), measures=("train",), **change)
    for group in plan(settings):
        for variant in group.variants:
            assert goal(group.point, variant, settings.execution) == Goal()


def test_decoding_is_measured_at_batch_1_unless_asked_otherwise() -> None:
    for batch, expected in ((None, 1), (3, 3)):
        groups = plan(BenchSettings(shapes=("gpt2",), measures=("decode", "generate"), batch=batch))
        assert {group.point.batch for group in groups} == {expected}


def test_dense_goes_beside_each_method() -> None:
    (group,) = plan(BenchSettings(shapes=("gpt2",), measures=("loss",), methods=("mos", "s + C"), against_dense=True))
    assert [variant.name for variant in group.variants] == [
        "plain", "mos", "mos (dense)", "softmax+c", "softmax+c (dense)",
    ]  # fmt: skip
    assert goal(group.point, group.variants[2], Execution()) == Goal()


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
    assert names == [["plain", f"softmax+cpr:20,{k}", f"softmax+cpr:20,{k}+mi"] for k in (50, 200)]
    along_V = plan(BenchSettings(shapes=("gpt2",), measures=("train",), scales=(Scale("V", (999, 2000)),)))
    assert [group.point.shape.vocabulary for group in along_V] == [999, 2000]
    along_B = plan(BenchSettings(shapes=("gpt2",), measures=("train",), scales=(Scale("B", (2, 8)),)))
    assert [group.point.batch for group in along_B] == [2, 8]


def test_head_is_all_of_the_head() -> None:
    assert BenchSettings(measures=("head", "head-loss", "train")).measures == (*HEAD, "train")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shapes": ("gpt3",)}, "shape 'gpt3': unknown. Known: gpt2, gpt2-medium"),
        ({"measures": ("speed",)}, "measure 'speed': unknown. Known: forward"),
        ({"dtype": "int8"}, "dtype 'int8': unknown. Known: float32"),
        ({"device": "tpu"}, "device 'tpu': unknown. Known: cpu, cuda"),
        ({"dtype": "float16", "autocast": True}, "autocast with float16 weights: autocast is for float32 weights"),
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
