"""Pairs of words by relation: our own, as .tsv files beside this one, or those of a file of analogy questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

Pair = tuple[str, str]  # a word and what it is paired with: Paris, France; king, queen
Pairs = Mapping[str, Sequence[Pair]]  # by relation

RELATIONS = {"capital-common": "place", "capital-world": "place", "city-in-state": "place", "family": "person"}
ALIASES = {"capital-common-countries": "capital-common"}  # questions-words.txt has a longer name for it


def own_pairs() -> dict[str, list[Pair]]:
    """The pairs that come with the package. They are one word each, and no word is in two pairs without need."""
    return {relation: [(first, second) for first, second in rows(f"{relation}.tsv")] for relation in RELATIONS}


def rows(name: str) -> list[list[str]]:
    """The cells of a .tsv file of this package."""
    text = files("unbottle.data.analogy").joinpath(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def read_pairs(path: str | Path) -> dict[str, list[Pair]]:
    """The pairs of a file in the format of questions-words.txt: `: relation`, then lines of four words, a b c d.

    Relations for which there are no templates are left out.
    """
    found: dict[str, dict[Pair, None]] = {}  # in the order of the file
    relation = ""
    for number, line in enumerate(lines(Path(path)), start=1):
        words = line.split()
        if words[:1] == [":"]:
            name = " ".join(words[1:])
            relation = ALIASES.get(name, name)
        elif words:
            if len(words) != 4 or not relation:
                raise ValueError(
                    f"{path}, line {number}: {line.strip()[:60]!r} is no analogy question. Expected ': relation', and "
                    "below it lines of four words, as in 'Athens Greece Oslo Norway'."
                )
            found.setdefault(relation, {}).update({(words[0], words[1]): None, (words[2], words[3]): None})
    known = {name: list(found[name]) for name in RELATIONS if name in found}
    if not known:
        raise ValueError(
            f"{path} has no relation of {', '.join(RELATIONS)}, but {', '.join(found) or 'nothing'}. "
            "Add a line like ': family' above its questions."
        )
    return known


def lines(path: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}.") from error
