"""Words, sentences and n-grams, as the metrics count them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

DESCRIPTION = "words of letters and digits in lower case, each Chinese or Japanese character by itself"
# Scripts without spaces between words: each character is a word.
ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Marks that belong to the letter before them, and that \w leaves out: accents, Arabic, Indic and Thai vowels.
MARKS = "\u0300-\u036f\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0980-\u0983\u09bc-\u09cd\u0b82\u0bbe-\u0bcd\u0e31-\u0e4e"
LETTER = f"(?:(?![{ALONE}])[^\\W_]|[{MARKS}])"
WORD = re.compile(f"[{ALONE}]|{LETTER}+(?:'{LETTER}+)*")
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|(?<=[。！？])|\n+")  # noqa: RUF001


def tokens(text: str) -> list[str]:
    """Words of a text; `don't` is one, and 1,000 is two."""
    return WORD.findall(unicodedata.normalize("NFKC", text).replace("\u2019", "'").lower())


def sentences(text: str) -> list[str]:
    """Parts that end with a full stop, an exclamation or question mark, or a line; those without a word left out."""
    parts = (part.strip() for part in SENTENCE.split(text))
    return [part for part in parts if tokens(part)]


def ngrams(sequence: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)]


WORDS = "words between spaces, lower case"


def words(text: str) -> list[str]:
    return text.lower().split()
