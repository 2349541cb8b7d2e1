"""What a summary says again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unbottle.eval.metrics.tokens import DESCRIPTION, ngrams, sentences, tokens

IMPLEMENTATION = f"unbottle.eval.metrics.repetition; {DESCRIPTION}; summaries without any are left out"


def repetition(summary: str, n: int) -> float | None:
    """Share of the n-grams that occurred before: 1 - different n-grams / n-grams."""
    return _again(ngrams(tokens(summary), n))


def repeated_sentences(summary: str) -> float | None:
    """Share of the sentences that occurred before, word by word: 1 - different sentences / sentences."""
    return _again([tuple(tokens(sentence)) for sentence in sentences(summary)])


def _again(found: Sequence[Any]) -> float | None:
    return (len(found) - len({*found})) / len(found) if found else None
