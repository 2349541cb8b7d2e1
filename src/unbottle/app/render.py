"""HTML of the app: next words, heat maps of list orders, and texts with the words they copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from unbottle.app.predictions import COMPARED, NextWords, Shuffled, Written
from unbottle.eval.metrics.tokens import WORD, tokens
from unbottle.eval.next_words import PLAIN
from unbottle.report.page import in_order, render

SHORT = 3  # letters: the, of, and are no sign of copying by themselves
STRONGEST = 70  # per cent of the colour behind a share of 1, so that the number on it stays readable
VISIBLE_MASS = 0.0005  # shown as 0.1 %

Marks = Mapping[tuple[int, int], tuple[str, Sequence[int]]]  # (start, end): a title, numbers of models


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


def next_word_bars(text: str, models: Sequence[NextWords]) -> str:
    """A column for each model, all on one scale, what changed since the first one, and a legend."""
    partitions = {word.partition for model in models for word in model.words} - {PLAIN}
    masses = {name for model in models for name, mass in model.masses.items() if mass >= VISIBLE_MASS} - {PLAIN}
    return _render("words", text=text, columns=models, partitions=in_order(partitions | masses), compared=COMPARED)


def heat_maps(results: Sequence[Shuffled], waiting: Sequence[str] = ()) -> str:
    """A map for each model: rows are orders of a list, columns its options. `waiting` are models still at work."""
    return _render("heat_maps", results=results, names=waiting, strongest=STRONGEST)


def copied_words(source: str, texts: Sequence[Written], waiting: Sequence[str] = ()) -> str:
    """A card for each model's text and the source below; words that are in both are marked."""
    several = len(texts) + len(waiting) > 1
    cards = []
    copied: dict[tuple[int, int], list[int]] = {}
    for number, written in enumerate(texts, 1):
        marks: Marks = {(word.start, word.end): ("Also in the text", ()) for word in shared_words(written.text, source)}
        pieces = _pieces(written.text, marks)
        cards.append({"model": written.model, "method": written.method, "note": written.note, "pieces": pieces})
        for word in shared_words(source, written.text):
            copied.setdefault((word.start, word.end), []).append(number)
    source_marks = {
        place: (f"Copied by {', '.join(texts[number - 1].model for number in numbers)}", numbers if several else ())
        for place, numbers in sorted(copied.items())
    }
    return _render(
        "copied_words",
        cards=cards,
        names=waiting,
        source=_pieces(source, source_marks),
        several=several,
        any_copied=bool(copied),
    )


def busy(waiting: Sequence[str]) -> str:
    """A card for each model, before any has an answer."""
    return _render("busy", names=waiting)


def alert(message: str) -> str:
    """An error message that screen readers read out."""
    return _render("alert", message=message)


def _pieces(text: str, marks: Marks) -> Iterable[dict[str, object]]:
    """The text in pieces; marked ones have a title and numbers."""
    pieces: list[dict[str, object]] = []
    end = 0
    for (start, stop), (title, numbers) in marks.items():
        pieces += [{"text": text[end:start]}, {"text": text[start:stop], "title": title, "numbers": numbers}]
        end = stop
    return [*pieces, {"text": text[end:]}]


def _render(macro: str, **values: object) -> str:
    return str(render("app.html", macro, values, package="unbottle.app"))
