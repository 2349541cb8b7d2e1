"""cost: time and memory of the heads beside the plain model, measured briefly by `unbottle.bench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unbottle.bench.case import PLAIN, Group, Point, Variant
from unbottle.bench.run import Bench
from unbottle.bench.settings import Settings
from unbottle.bench.shape import Shape

Report = Callable[[float, float, str], None]
LEFT_OUT = ("architectures", "dtype", "model_type", "transformers_version", "vocab_size", "_name_or_path")
CONTEXT = 128  # words before a step of decoding
POSITIONS = {"gpt2": "n_positions"}  # how an architecture calls its longest text


def cost(
    config: Any, methods: Sequence[str], *, length: int, repeats: int, memory: bool, threads: int, report: Report
) -> list[dict[str, Any]]:
    """A row for each measure and method: a forward pass over one text, a step of decoding; memory of the former.

    Models of this shape with random weights cost what the trained ones do.
    """
    shape = shape_of(config)
    variants = tuple(Variant(method=method) for method in (PLAIN, *methods))
    points = {
        "forward": Point(shape=shape, measure="forward", batch=1, length=length),
        "decode": Point(shape=shape, measure="decode", batch=1, length=length, context=min(CONTEXT, length)),
    }
    rows = []
    for number, (measure, point) in enumerate(points.items()):

        def inner(done: float, total: float, text: str, number: int = number) -> None:
            report(number + done / max(total, 1e-9), len(points), text)

        settings = Settings(
            repeats=repeats * (1 if measure == "forward" else 3),  # a step of decoding is short
            threads=threads,
            memory=memory and measure == "forward",
        )
        bench = Bench(settings, report=inner, groups=[Group(point=point, variants=variants)])
        bench.run()
        rows += [row.to_dict() for row in bench.rows]
    return rows


def shape_of(config: Any) -> Shape:
    """The shape of a plain model, as data."""
    values = {name: value for name, value in config.to_dict().items() if name not in LEFT_OUT}
    return Shape(
        name="the model",
        model_type=config.model_type,
        config=values,
        vocabulary=config.vocab_size,
        positions=POSITIONS.get(config.model_type, "max_position_embeddings"),
    )
