"""A colour for each partition, the same on the whole page, light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

ONE, TWO, THREE, FOUR, FIVE, SIX = (f"var(--{name})" for name in ("one", "two", "three", "four", "five", "six"))
SERIES = (ONE, TWO, THREE, FOUR, FIVE, SIX)
PARTITIONS = {  # the last who wrote a logit: its colour, and what its words are
    "softmax": (ONE, "the plain softmax"),
    "V": (ONE, "any word"),
    "C": (THREE, "words of the context"),
    "PD": (THREE, "words of the context, with local embeddings"),
    "E": (FIVE, "words of the encoder input"),
    "PE": (FIVE, "words of the encoder input, with local embeddings"),
    "R1": (TWO, "the few most likely words"),
    "R2": (FOUR, "other likely words"),
}


def colour(partition: str) -> str:
    return PARTITIONS.get(partition, (SIX, ""))[0]


def legend(partitions: Iterable[str]) -> str:
    """What the colours mean, for those that occur."""
    occurring = {*partitions}
    found = [name for name in PARTITIONS if name in occurring] + sorted(occurring - {*PARTITIONS})
    items = (
        f'<span><i style="background:{colour(name)}"></i>{escape(name)}: '
        f"{escape(PARTITIONS.get(name, ('', 'other words'))[1])}</span>"
        for name in found
    )
    return f'<div class="legend">{"".join(items)}</div>'
