"""Summaries to score: ids, predictions, and what they are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How the columns of a file are called."""

    id: str = "id"
    document: str = "document"
    summary: str = "summary"
    prediction: str = "prediction"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """One of each for an example; `references` or `sources` is None where there are none."""

    ids: tuple[str, ...]
    predictions: tuple[str, ...]
    references: tuple[str, ...] | None
    sources: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if not self.predictions:
            raise ValueError("no predictions to score.")
        groups = {"id": self.ids, "reference": self.references, "source": self.sources}
        for name, group in groups.items():
            if group is not None and len(group) != len(self.predictions):
                raise ValueError(f"{len(self.predictions)} predictions and {len(group)} {name}s: expected as many.")
        for name, texts in {**groups, "prediction": self.predictions}.items():
            for place, text in enumerate(texts or ()):
                if not isinstance(text, str):
                    raise ValueError(f"example {self.ids[place]}: its {name} is {text!r}, and a text is needed.")
        refuse_duplicates(self.ids, "predictions")

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, Any]], *, columns: Columns | None = None, needed: Sequence[str] = ()
    ) -> Examples:
        """Examples out of rows, as a file has them or a model makes them.

        `needed` names the columns, by our names for them, that must be there: document, summary, id. Without an id, the
        number of the row is one. A text that is None counts as empty: a model may have nothing to say.
        """
        names = columns or Columns()
        found = [*rows]
        wanted = {"prediction": names.prediction, **{name: getattr(names, name) for name in needed}}
        for place, row in enumerate(found, start=1):
            for name in wanted.values():
                if name not in row:
                    there = ", ".join(map(str, row)) or "none"
                    raise ValueError(f"row {place}: no column {name!r}. There are: {there}.")

        def texts(name: str) -> tuple[Any, ...] | None:
            if not found or not all(name in row for row in found):
                return None
            return tuple("" if row[name] is None else row[name] for row in found)

        ids = texts(names.id)
        if ids is not None and "" in ids:
            raise ValueError(f"row {ids.index('') + 1}: its {names.id!r} is empty, and an id is needed.")
        return cls(
            ids=tuple(map(str, range(1, len(found) + 1) if ids is None else ids)),
            predictions=texts(names.prediction) or (),
            references=texts(names.summary),
            sources=texts(names.document),
        )

    def only(self, ids: Iterable[str]) -> Examples:
        """Those with these ids, in this order."""
        places = {each: place for place, each in enumerate(self.ids)}
        chosen = [places[each] for each in ids]

        def part(texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if texts is None else tuple(texts[place] for place in chosen)

        return Examples(
            ids=tuple(self.ids[place] for place in chosen),
            predictions=tuple(self.predictions[place] for place in chosen),
            references=part(self.references),
            sources=part(self.sources),
        )


def refuse_duplicates(ids: Iterable[str], where: str) -> None:
    twice = [each for each, times in Counter(ids).items() if times > 1]
    if twice:
        more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        raise ValueError(f"{where}: ids that occur more than once: {', '.join(twice[:3])}{more}. Each must be unique.")


def in_common(first: Examples, second: Examples) -> tuple[Examples, Examples]:
    """Both with the ids that both have, in the order of the first; what they were compared with must be the same."""
    theirs = {*second.ids}
    ids = [each for each in first.ids if each in theirs]
    if not ids:
        raise ValueError(
            f"the two runs have no id in common: {', '.join(first.ids[:3])}, ... and {', '.join(second.ids[:3])}, ..."
        )
    one, other = first.only(ids), second.only(ids)
    for name, ours, theirs_too in (
        ("reference", one.references, other.references),
        ("source", one.sources, other.sources),
    ):
        for each, a, b in zip(ids, ours or (), theirs_too or (), strict=False):
            if a != b:
                raise ValueError(f"the two runs have another {name} for id {each}: they can not be compared.")
    return one, other
