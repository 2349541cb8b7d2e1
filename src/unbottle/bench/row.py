"""Row: what was measured of one case, beside the plain model at the same point."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from unbottle.bench.case import Point, Variant
from unbottle.bench.limits import Limit
from unbottle.bench.rounds import Time


@dataclass(frozen=True, kw_only=True)
class Row:
    """Times are medians; ratios are the median divided by that of the plain model."""

    point: Point
    variant: Variant
    times: tuple[Time, ...]
    plain: tuple[Time, ...]
    peak_mb: float | None = None
    plain_peak_mb: float | None = None
    limit: Limit

    @property
    def cpu(self) -> float:
        return median(time.cpu for time in self.times)

    @property
    def wall(self) -> float:
        return median(time.wall for time in self.times)

    @property
    def cpu_ratio(self) -> float:
        return self.cpu / median(time.cpu for time in self.plain)

    @property
    def wall_ratio(self) -> float:
        return self.wall / median(time.wall for time in self.plain)

    @property
    def memory_ratio(self) -> float | None:
        if self.peak_mb is None or self.plain_peak_mb is None:
            return None
        return self.peak_mb / self.plain_peak_mb

    @property
    def words(self) -> int:
        """How many next words one step predicts."""
        return self.point.batch * (1 if self.point.measure == "decode" else self.point.length)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for programs. Seconds and MB."""
        point = self.point
        return {
            "shape": point.shape.name,
            "vocabulary": point.shape.vocabulary,
            "measure": point.measure,
            "batch": point.batch,
            "length": point.length,
            "source_length": point.source_length or None,
            "context": point.context,
            "scale": None if point.axis is None else {"axis": point.axis, "value": point.value},
            "method": self.variant.method,
            "path": self.variant.path,
            "cpu": {"median": self.cpu, "ratio": self.cpu_ratio, "times": [time.cpu for time in self.times]},
            "wall": {"median": self.wall, "ratio": self.wall_ratio, "times": [time.wall for time in self.times]},
            "memory": None if self.peak_mb is None else {"peak_mb": self.peak_mb, "ratio": self.memory_ratio},
            "at_most": {"time": self.limit.time, "memory": self.limit.memory},
        }
