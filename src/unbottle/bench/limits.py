"""What the library promises to cost at most, as ratios to the plain model. They stand beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from unbottle.bench.case import Point, Variant


@dataclass(frozen=True)
class Limit:
    time: float | None = None
    memory: float | None = None


CPR, C, MOS, CEPR = "softmax+cpr:20,100+mi", "softmax+c+mi", "mos", "softmax+cepr:20"
SIZES = {"gpt2": (4, 200, 0), "t5-small": (8, 64, 512), "vocab-152k": (4, 1024, 0)}  # batch, length, source length
LIMITS = {
    ("gpt2", CPR, "train", None): Limit(1.00, 0.95),
    ("gpt2", CPR, "loss", None): Limit(0.98),
    ("gpt2", CPR, "forward", None): Limit(1.04),
    ("gpt2", CPR, "decode", 128): Limit(1.06),
    ("gpt2", CPR, "decode", 1024): Limit(1.08),
    ("gpt2", C, "train", None): Limit(0.98),
    ("gpt2", MOS, "train", None): Limit(1.40),
    ("t5-small", CEPR, "train", None): Limit(1.06),
    ("vocab-152k", CPR, "train", None): Limit(None, 0.50),
}


def limit(point: Point, variant: Variant, *, dtype: str, threads: int) -> Limit:
    """The limit of a case; none where its sizes are not those of the promise."""
    name = point.shape.name
    promised = (dtype, threads, variant.path) == ("float32", 2, "auto") and point.axis is None
    if not promised or SIZES.get(name) != (point.batch, point.length, point.source_length):
        return Limit()
    return LIMITS.get((name, variant.method, point.measure, point.context), Limit())
