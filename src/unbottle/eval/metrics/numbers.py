"""Numbers in a text, however they are written."""

from __future__ import annotations

import re
import unicodedata

LISTED = """
one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
"""
WORDS = LISTED.split()
SPELLED = {word: str(number) for number, word in enumerate(WORDS, start=1)}
SPELLED_PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
WRITTEN = re.compile(r"\d+(?:[.,'\u2019\u00a0\u202f]\d+)*")
THOUSANDS = re.compile(r"(?<=\d)(?:[,'\u2019\u00a0\u202f](?=\d{3}(?!\d)))")
APART = re.compile(r"(?<=\d)([.,]) (?=\d)")
MILLIONS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")  # full stops in groups of three; one alone is a decimal point


def numbers(text: str) -> set[str]:
    """Numbers of a text: 1,000 and 1000 are one, two and 2 too, 1,5 is 1.5, and 5.0 is 5."""
    found = {_plain(match.group()) for match in WRITTEN.finditer(text)}
    return found | {SPELLED[match.group().lower()] for match in SPELLED_PATTERN.finditer(text)}


def possible_numbers(text: str) -> set[str]:
    """Numbers of a text that may be cut into words, as corpora are: `235, 000` is 235 and 0, and 235000 as well."""
    return numbers(text) | numbers(APART.sub(r"\1", text))


def _plain(written: str) -> str:
    digits = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in written)
    if MILLIONS.fullmatch(digits):
        digits = digits.replace(".", "")
    digits = THOUSANDS.sub("", digits)
    digits = re.sub(r"[,'\u2019\u00a0\u202f]", ".", digits)
    whole, _, part = digits.partition(".")
    part = part.rstrip("0") if "." not in part else part  # a version or a date keeps all its parts
    return f"{whole.lstrip('0') or '0'}.{part}" if part else whole.lstrip("0") or "0"
