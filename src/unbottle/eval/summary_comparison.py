"""Two runs on the same examples: which is better, and is it chance?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unbottle.eval.resampling import LEVEL, TEST, difference_interval, p_value
from unbottle.eval.summary_scores import Score, Scores

INTERVAL = "percentile bootstrap over examples, the same draws for both runs"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First minus second, the ends of its 95 % interval, and a two-sided p value; or why there is none."""

    first: float | None
    second: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    rounds: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The differences of all metrics. Their p values are not corrected for how many there are."""

    examples: int
    metrics: Mapping[str, Difference]
    seed: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "difference": "first - second",
            "test": TEST,
            "correction for several metrics": "none",
            "interval": {"level": LEVEL, "method": INTERVAL},
            "seed": self.seed,
            "metrics": {name: vars(found) for name, found in self.metrics.items()},
        }


def compare_summaries(first: Scores, second: Scores) -> Comparison:
    """Two runs compared, metric by metric, by examples with the same id in the same order."""
    if first.ids != second.ids:
        raise ValueError(
            f"runs of {len(first.ids)} and {len(second.ids)} examples, and not with the same ids in the same order: "
            "take those in common first (unbottle.eval.in_common)."
        )
    names = [name for name in first.metrics if name in second.metrics]
    found = {name: _difference(first.metrics[name], second.metrics[name], first) for name in names}
    return Comparison(examples=len(first.ids), metrics=found, seed=first.drawing.seed)


def _difference(first: Score, second: Score, run: Scores) -> Difference:
    if first.value is None or second.value is None or first.measured is None or second.measured is None:
        return Difference(first=first.value, second=second.value, why=first.why or second.why)
    one, other = first.measured.found, second.measured.found
    ends = difference_interval(one, other, run.drawing)
    p = p_value(one, other, run.drawing)
    return Difference(
        first=first.value,
        second=second.value,
        difference=first.value - second.value,
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[1],
        p=p,
        rounds=0 if p is None else run.drawing.rounds,
        why=first.note if p is None else "",
    )
