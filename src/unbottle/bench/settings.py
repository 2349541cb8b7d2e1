"""Settings: everything a run of the benchmark is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unbottle.bench.case import HEAD, MEASURES, MODEL
from unbottle.bench.scale import Scale
from unbottle.bench.shape import SHAPES

DTYPES = ("float32", "bfloat16", "float16")
SHORTEST_CONTEXT = 8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """None: the shape's own. Refuses what is not known, before anything is built."""

    shapes: tuple[str, ...] = ("gpt2", "t5-small")
    methods: tuple[str, ...] = ()
    measures: tuple[str, ...] = MODEL
    batch: int | None = None
    length: int | None = None
    source_length: int | None = None
    contexts: tuple[int, ...] = (128, 1024)
    repeats: int = 7
    threads: int = 2
    dtype: str = "float32"
    against_dense: bool = False
    memory: bool = True
    scales: tuple[Scale, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        measures = [part for name in self.measures for part in (HEAD if name == "head" else (name,))]
        object.__setattr__(self, "measures", tuple(dict.fromkeys(measures)))
        for name in self.shapes:
            known("shape", name, tuple(SHAPES))
        for name in self.measures:
            known("measure", name, MEASURES)
        known("dtype", self.dtype, DTYPES)
        for what in ("batch", "length", "source_length", "repeats", "threads"):
            if (value := getattr(self, what)) is not None and value < 1:
                raise ValueError(f"{what} {value}: give a number of at least 1.")
        grown = [value for scale in self.scales if scale.axis == "T" for value in scale.values]
        for context in (*self.contexts, *(grown if "decode" in self.measures else ())):
            if context < SHORTEST_CONTEXT:
                raise ValueError(f"context {context}: give a number of at least {SHORTEST_CONTEXT}.")
        if self.source_length and not any(SHAPES[name].encoder_decoder for name in self.shapes):
            raise ValueError(f"source length {self.source_length}: {', '.join(self.shapes)} has no encoder.")
        if self.length == 1 and set(self.measures) - {"decode"}:
            raise ValueError("length 1: a text of one word has no next word to predict; give at least 2.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} {value!r}: unknown. Known: {', '.join(allowed)}.")
