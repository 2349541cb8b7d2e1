"""What to measure, in which order: shape by shape, measure by measure."""

from __future__ import annotations

from dataclasses import replace

from unbottle.bench.case import PLAIN, Group, Point, Variant
from unbottle.bench.scale import Scale, with_k
from unbottle.bench.settings import Settings
from unbottle.bench.shape import SHAPES, Shape
from unbottle.spec import Method


def plan(settings: Settings) -> list[Group]:
    """All groups. Refuses methods that a shape can not take."""
    groups = []
    for shape in (SHAPES[name] for name in settings.shapes):
        for point in points(shape, settings):
            chosen = variants(point, settings.methods or shape.methods, settings)
            groups.append(Group(point=point, variants=chosen))
        for scale in settings.scales:
            groups += scaled(shape, scale, settings)
    return groups


def points(shape: Shape, settings: Settings) -> list[Point]:
    """Where one shape is measured; with a scale only along it."""
    return [] if settings.scales else [point for m in settings.measures for point in at(shape, m, settings)]


def at(shape: Shape, measure: str, settings: Settings) -> list[Point]:
    source = settings.source_length or shape.source_length
    point = Point(
        shape=shape,
        measure=measure,
        batch=settings.batch or shape.batch,
        length=settings.length or shape.length,
        source_length=source if shape.encoder_decoder else 0,
    )
    return [replace(point, context=c) for c in settings.contexts] if measure == "decode" else [point]


def scaled(shape: Shape, scale: Scale, settings: Settings) -> list[Group]:
    """The groups along one axis. Where k grows, only methods that rerank are measured."""
    groups = []
    methods = settings.methods or shape.methods
    for measure in settings.measures:
        for value in scale.values:
            chosen = [with_k(method, value) for method in methods] if scale.axis == "k" else methods
            rerank = tuple(method for method in chosen if method is not None)
            if not rerank:
                raise ValueError(f"scale {scale}: none of {', '.join(methods)} reranks words (part r).")
            for point in dict.fromkeys(moved(point, scale.axis, value) for point in at(shape, measure, settings)):
                groups.append(Group(point=point, variants=variants(point, rerank, settings)))
    return groups


def moved(point: Point, axis: str, value: int) -> Point:
    """The same point with another size. Where T grows, the context of a decoding step does."""
    point = replace(point, axis=axis, value=value)
    if axis == "V":
        return replace(point, shape=replace(point.shape, vocabulary=value))
    if axis == "B":
        return replace(point, batch=value)
    if axis == "T":
        return replace(point, length=value, context=None if point.context is None else value)
    return point


def variants(point: Point, methods: tuple[str, ...], settings: Settings) -> tuple[Variant, ...]:
    """The plain model, then each method; with `against_dense` each a second time, on the readable path."""
    found = [Variant(method=PLAIN)]
    for text in methods:
        method = Method.parse(text)
        method.check(encoder_decoder=point.shape.encoder_decoder, vocabulary=point.shape.vocabulary)
        found += [Variant(method=str(method), path=p) for p in ("auto", *["dense"] * settings.against_dense)]
    return tuple(dict.fromkeys(found))
