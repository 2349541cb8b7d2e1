"""What the library aims at: the largest ratios to the plain model, and whether measurements reach them."""

from __future__ import annotations

from dataclasses import dataclass

from unbottle.bench.cases import PLAIN, PROMPT, SHAPES, BenchSettings, CaseGroup, Execution, HeadVariant, Point, at

C, CPR, CPR_MI, MOS_MI, CEPR = "softmax+c", "softmax+cpr:20,100", "softmax+cpr:20,100+mi", "mos+mi", "softmax+cepr:20"
TIMES: dict[tuple[str, str], dict[str, float | None]] = {  # ratios of wall time; None: memory only
    ("gpt2", "train"): {C: 0.87, CPR: 0.93, CPR_MI: 0.98, MOS_MI: 1.40},
    ("gpt2", "loss"): {C: 0.90, CPR: 0.95, CPR_MI: 1.02},
    ("gpt2", "loss-no-logits"): {C: 0.75, CPR: 0.77, CPR_MI: 0.79},
    ("gpt2", "generate"): {C: 1.03, CPR: 1.06, CPR_MI: 1.13},
    ("vocab-152k", "train"): {CPR_MI: 0.92},
    ("vocab-152k", "decode"): {CPR_MI: 1.10},
    ("t5-small", "train"): {CEPR: None},
}
TRAINING_MEMORY = 1.0  # of every method and shape


@dataclass(frozen=True)
class Goal:
    """The most that a case should cost, as ratios to the plain model."""

    time: float | None = None
    memory: float | None = None


NO_GOAL = Goal()


def goal(point: Point, variant: HeadVariant, execution: Execution) -> Goal:
    """The goal of a case; none unless it runs as by default, and at the default sizes of its shape."""
    name, measure = point.shape.name, point.measure
    usual = execution == Execution() and variant.path == "auto" and variant.method != PLAIN
    if not usual or name not in SHAPES or point != default_point(name, measure):
        return NO_GOAL
    time = TIMES.get((name, measure), {}).get(variant.method)
    return Goal(time, TRAINING_MEMORY if measure == "train" else None)


def default_point(shape: str, measure: str) -> Point:
    (point,) = at(SHAPES[shape], measure, BenchSettings(contexts=(PROMPT,)))
    return point


def plan_goals() -> list[CaseGroup]:
    """The cases that have goals, and the plain model beside them."""
    groups = []
    for (shape, measure), times in TIMES.items():
        variants = tuple(HeadVariant(method=method) for method in (PLAIN, *times))
        memory = measure == "train"  # nothing else has a goal for it
        groups.append(CaseGroup(point=default_point(shape, measure), variants=variants, memory=memory))
    return groups
