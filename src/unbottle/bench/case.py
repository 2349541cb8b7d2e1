"""Case: one thing that is measured, and Group: the cases that are measured against each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unbottle.bench.shape import Shape

PLAIN = "plain"  # the model as transformers made it, no head attached
MODEL = ("forward", "loss", "train", "decode")
HEAD = ("head-forward", "head-loss", "head-train")
MEASURES = (*MODEL, *HEAD)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What differs inside a group: the output layer, and how it is computed."""

    method: str = PLAIN
    path: str = "auto"

    @property
    def name(self) -> str:
        return self.method if self.path == "auto" else f"{self.method} ({self.path})"


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is equal inside a group: the measure and all sizes."""

    shape: Shape
    measure: str
    batch: int
    length: int
    source_length: int = 0
    context: int | None = None  # of decode
    axis: str | None = None  # the scale that this point lies on, and where
    value: int | None = None

    @property
    def positions(self) -> int:
        """The longest text of the decoder or encoder."""
        return max(self.context or self.length, self.source_length)

    @property
    def title(self) -> str:
        return self.measure if self.context is None else f"{self.measure} at {self.context}"

    @property
    def work(self) -> float:
        """A guess at the cost of one run, for the progress bar: words that are read, three times if trained.

        A decoding step reads few words and all weights, so it counts for more.
        """
        words = 40 if self.measure == "decode" else self.length + self.source_length / 2
        return self.batch * words * (3 if self.measure.endswith("train") else 1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One variant at one point: all that a process of its own must know."""

    point: Point
    variant: Variant
    dtype: str = "float32"
    threads: int = 2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(data: dict[str, Any]) -> Case:
        point = dict(data["point"])
        shape = dict(point.pop("shape"))
        shape["methods"] = tuple(shape["methods"])
        return Case(**data | {"point": Point(shape=Shape(**shape), **point), "variant": Variant(**data["variant"])})


@dataclass(frozen=True, kw_only=True)
class Group:
    """Variants that take turns at one point; the plain model is the first."""

    point: Point
    variants: tuple[Variant, ...]
