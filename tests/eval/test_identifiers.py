"""Identifiers in programs, by how they are written and used."""

from __future__ import annotations

import pytest

from unbottle.eval.proper_nouns import Identifiers, tagger, words_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def read_all(path):", ["read_all"]),
        ("self.close()", ["self", "close"]),
        ("total += count2", ["total", "count2"]),
        ("if value == other:", []),
        ("x = values[0]", ["x", "values"]),
        ("import os as system", ["os", "system"]),
        ("class Reader: pass", ["Reader"]),
        ("# The reader closes the file.", []),
        ("return HTTPError", ["HTTPError"]),
        ("for(i) in range(3): print(None)", ["range", "print"]),
        ("# See also: other things (and more).", []),
        ("été_1", ["été_1"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert words_of(text, Identifiers()(text)) == names


def test_by_name() -> None:
    assert tagger("identifiers").description.startswith("identifiers: ")
