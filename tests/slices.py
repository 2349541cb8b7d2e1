"""Large matrices of parameters, cut to a slice in which every pair of values still meets.

`make test` runs the slice, `make test-full` the rest as well. A method counts as its parts: its base, each letter, how
many ks, Mi, the word-by-word reranker. Each part then meets each other part, each kind of model, each path. Faults that
need three particular values at once are for the whole matrix, and for hypothesis, which draws methods and shapes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from unbottle.method import LETTERS, Method, MethodError

SMALL = 24  # rows; a smaller matrix is run as it is


def parts(name: str, value: Any) -> Iterator[Hashable]:
    """What a value is made of: a method of several things, anything else of itself."""
    if isinstance(value, str):
        try:
            method = Method.parse(value)
        except MethodError:
            pass
        else:
            yield name, "base", method.base, method.softmaxes
            yield name, "ks", len(method.ks)
            yield name, "mi", str(method.mi)
            yield name, "wbwr", method.wbwr is not None
            yield from ((name, letter, letter in method.letters) for letter in LETTERS)
            return
    yield name, repr(value)  # a frozen dataclass with a dict in it claims to be hashable


def pairs(row: Mapping[str, Any]) -> set[Hashable]:
    """The pairs of parts that meet in a row; of a row of one part, that part."""
    found = [part for name, value in row.items() for part in parts(name, value)]
    return {*itertools.combinations(found, 2)} or {*found}


def covering(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Indices of rows in which every pair of any row occurs: those that add most first, of equals the earlier."""
    numbers: dict[Hashable, int] = {}
    masks = [sum(1 << numbers.setdefault(pair, len(numbers)) for pair in pairs(row)) for row in rows]
    missing, chosen = (1 << len(numbers)) - 1, set()
    while missing:
        best = max(range(len(rows)), key=lambda index: (masks[index] & missing).bit_count())
        chosen.add(best)
        missing &= ~masks[best]
    return chosen


def mark_rows_outside_the_slice(items: Sequence[pytest.Item]) -> None:
    """Give the mark `full` to the rows of large matrices that the slice does without; `whole` exempts a test."""
    matrices = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("full") and not item.get_closest_marker("whole"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    for rows in matrices.values():
        if len(rows) >= SMALL:
            kept = covering([row.callspec.params for row in rows])
            for index, row in enumerate(rows):
                if index not in kept:
                    row.add_marker("full")
