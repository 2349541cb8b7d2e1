"""training_text: what a model reads to learn that two words are equally likely."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from unbottle.data.analogy.item import Analogy


def training_text(items: Iterable[Analogy], *, seed: int = 0) -> list[str]:
    """Each prompt with each of its two answers and a full stop, in random order: one text per line of a file."""
    texts = [f"{item.prompt} {answer}." for item in items for answer in item.answers]
    Random(f"text {seed}").shuffle(texts)
    return texts
