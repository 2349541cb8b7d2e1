"""Identifiers: names in the source code of a program, by how they are written."""

from __future__ import annotations

import keyword
import re

from unbottle.eval.capitals import Span

NAME = re.compile(r"[^\W\d]\w*")
UNLIKE_A_WORD = re.compile(r"_|\d|[^\W\d_][a-z]*[A-Z]")  # snake_case, utf8, camelCase; not Word
BEFORE = re.compile(r"(?:\.|\bdef |\bclass |\bimport |\bas )$")
AFTER = re.compile(r"\(|\[|\.[^\W\d]|\s?[-+*/%|&]?=(?!=)")


class Identifiers:
    """A name is an identifier if it is no keyword of Python, and written like no word of a sentence or used like none.

    Written: with an underscore, a digit, or a capital after its first letter. Used: after a dot, def, class, import or
    as; or before a bracket, a dot and a name, or an equals sign. A window may begin within a comment or a string, so
    nothing is parsed: a single plain word, as the n of `n + 1`, is missed.
    """

    name = "identifiers"
    version = "1"
    description = "identifiers: names of Python by how they are written and used (unbottle.eval.identifiers), no parser"

    def __call__(self, text: str) -> list[Span]:
        return [found.span() for found in NAME.finditer(text) if self._is_one(text, found)]

    @staticmethod
    def _is_one(text: str, found: re.Match[str]) -> bool:
        if keyword.iskeyword(found.group()):
            return False
        first, end = found.span()
        return bool(
            UNLIKE_A_WORD.search(found.group())
            or BEFORE.search(text, max(0, first - 8), first)
            or AFTER.match(text, end)
        )
