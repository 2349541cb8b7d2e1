"""shared_words: which words of one text stand in another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from unbottle.eval.metrics.tokens import WORD, tokens

SHORT = 3  # letters of a word that, on its own, says nothing about copying: the, of, and


@dataclass(frozen=True, kw_only=True)
class TextWord:
    """A word of a text: text[start:end], and its form for comparisons."""

    start: int
    end: int
    key: str


def words(text: str) -> list[TextWord]:
    return [
        TextWord(start=match.start(), end=match.end(), key=" ".join(tokens(match.group())))
        for match in WORD.finditer(text)
    ]


def shared_words(text: str, other: str) -> list[TextWord]:
    """The words of `text` that `other` has as well; a short one only if `other` has it beside the same neighbour."""
    mine, theirs = words(text), [word.key for word in words(other)]
    keys, pairs = set(theirs), set(pairwise(theirs))
    beside = [False] * len(mine)
    for place, (left, right) in enumerate(pairwise(mine)):
        if (left.key, right.key) in pairs:
            beside[place] = beside[place + 1] = True
    return [
        word
        for word, together in zip(mine, beside, strict=True)
        if word.key in keys and (together or len(word.key) > SHORT)
    ]
