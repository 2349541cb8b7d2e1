"""Words, sentences and n-grams, as the metrics count them."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nltk.tokenize import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer

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


WORDS = "words as NLTK's word_tokenize cuts them, whose sentences end at abbreviations too (its list is a download)"


def words(text: str) -> list[str]:
    """What NLTK's word_tokenize returns, without the list of abbreviations that it downloads: case is kept.

    Without that list a sentence also ends after "Mr.", whose full stop then is a word of its own.
    """
    sentence_cutter, word_cutter = _nltk()
    return [word for sentence in sentence_cutter.tokenize(text) for word in word_cutter.tokenize(sentence)]


@functools.cache
def _nltk() -> tuple[PunktSentenceTokenizer, NLTKWordTokenizer]:
    try:
        from nltk.tokenize import NLTKWordTokenizer
        from nltk.tokenize.punkt import PunktSentenceTokenizer
    except ImportError as error:
        raise ValueError("CIDEr and NIST need the package nltk: pip install 'unbottle[eval]'.") from error
    return PunktSentenceTokenizer(), NLTKWordTokenizer()
