"""marked: texts that models wrote, as HTML, beside the text they copied from; what is copied is marked in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from unbottle.app.shared_words import shared_words
from unbottle.app.writing import Written

Marks = Mapping[tuple[int, int], tuple[str, list[int]]]  # start, end: a title, numbers of models


def marked(source: str, done: Sequence[Written], waiting: Sequence[str] = ()) -> str:
    """A card for each model, those that still write as well, and the source below."""
    several = len(done) + len(waiting) > 1
    cards = "".join(_card(number if several else None, each, source) for number, each in enumerate(done, 1))
    cards += "".join(
        f'<section class="ub-card ub-waiting"><h3>{escape(name)}</h3><p>writing…</p></section>' for name in waiting
    )
    taken: dict[tuple[int, int], list[int]] = {}
    for number, each in enumerate(done, 1):
        for word in shared_words(source, each.text):
            taken.setdefault((word.start, word.end), []).append(number)
    titles = {
        place: ("Copied by " + ", ".join(done[number - 1].model for number in numbers), numbers if several else [])
        for place, numbers in sorted(taken.items())
    }
    what = "<mark>Marked</mark>: in both." if taken else "Nothing is marked: so far no word was copied."
    legend = f'<p class="ub-note">{what} A short word is marked only beside another such word.</p>'
    told = f'<section class="ub-card ub-source"><h3>The text</h3><p>{_text(source, titles)}</p></section>'
    return f'<div class="ub-columns">{cards}</div>{told}{legend}'


def _card(number: int | None, each: Written, source: str) -> str:
    """The number is for marks of several models."""
    copied = shared_words(each.text, source)
    titles: Marks = {(word.start, word.end): ("Also in the text", []) for word in copied}
    note = f'<p class="ub-note">{escape(each.note)}</p>' if each.note else ""
    told = "" if number is None else f"<sup>{number}</sup> "
    heading = f"{told}{escape(each.model)} <small>{escape(each.method)}</small>"
    return (
        f'<section class="ub-card"><h3>{heading}</h3><p class="ub-made">{_text(each.text, titles)}</p>{note}</section>'
    )


def _text(text: str, marks: Marks) -> str:
    """Escaped, with marks at places: each has a title, and numbers of models that are shown behind it."""
    parts, here = [], 0
    for (start, end), (title, numbers) in marks.items():
        behind = f"<sup>{' '.join(map(str, numbers))}</sup>" if numbers else ""
        parts += [escape(text[here:start]), f'<mark title="{escape(title)}">{escape(text[start:end])}{behind}</mark>']
        here = end
    return "".join([*parts, escape(text[here:])]).replace("\n", "<br>")
