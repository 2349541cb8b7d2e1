"""Words for the metrics that count n-grams."""

from __future__ import annotations

DESCRIPTION = "words between spaces, lower case"


def words(text: str) -> list[str]:
    return text.lower().split()
