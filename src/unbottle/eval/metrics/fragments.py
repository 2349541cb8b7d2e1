"""Extractive fragments: what a summary copies, after Grusky et al. 2018 (Newsroom)."""

from __future__ import annotations

from collections.abc import Sequence

from unbottle.eval.metrics.tokens import DESCRIPTION, tokens

IMPLEMENTATION = f"unbottle.eval.metrics.fragments, after Grusky et al. 2018; {DESCRIPTION}"


def coverage(summary: str, source: str) -> float | None:
    """Share of the words of a summary that lie in a fragment of its source: sum |f| / |S|. None without a word."""
    lengths, number = _lengths(summary, source)
    return sum(lengths) / number if number else None


def density(summary: str, source: str) -> float | None:
    """Mean length of the fragment that a word of the summary lies in: sum |f|^2 / |S|. None without a word."""
    lengths, number = _lengths(summary, source)
    return sum(length**2 for length in lengths) / number if number else None


def _lengths(summary: str, source: str) -> tuple[list[int], int]:
    words = tokens(summary)
    return fragments(words, tokens(source)), len(words)


def fragments(summary: Sequence[str], source: Sequence[str]) -> list[int]:
    """Lengths of the fragments: from left to right, the longest stretch of the source that goes on from here."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(source):
        places.setdefault(word, []).append(place)
    found, start = [], 0
    while start < len(summary):
        longest = max((_shared(summary, start, source, place) for place in places.get(summary[start], ())), default=0)
        if longest:
            found.append(longest)
        start += max(longest, 1)
    return found


def _shared(summary: Sequence[str], start: int, source: Sequence[str], place: int) -> int:
    length = 0
    while (
        start + length < len(summary)
        and place + length < len(source)
        and summary[start + length] == source[place + length]
    ):
        length += 1
    return length
