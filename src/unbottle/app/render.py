"""shared_words: which words of one text stand in another.

A colour and a meaning for each partition. The name is always shown beside the colour.

bars: next words as HTML, a column of buttons for each model.

heat_map: what the order of a list does, as HTML; a row for each order, a column for each option.

marked: texts that models wrote, as HTML, beside the text they copied from; what is copied is marked in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from unbottle.app.predictions import NextWords, Shuffled, Written
from unbottle.eval.metrics.tokens import WORD, tokens
from unbottle.eval.next_words import PLAIN, ProbedWord

SHORT = 3  # letters of a word that, on its own, says nothing about copying: the, of, and


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


@dataclass(frozen=True, kw_only=True)
class Colour:
    """`value` is one of a palette that people who do not see all colours can tell apart (after Okabe and Ito)."""

    value: str
    meaning: str


COLOURS = {
    PLAIN: Colour(value="#7a8699", meaning="the model's own softmax over all words"),
    "V": Colour(value="#7a8699", meaning="the softmax over all words"),
    "C": Colour(value="#e69f00", meaning="words of the text so far"),
    "PD": Colour(value="#d55e00", meaning="words of the text so far, by where they stand"),
    "E": Colour(value="#56b4e9", meaning="words of the source"),
    "PE": Colour(value="#0072b2", meaning="words of the source, by where they stand"),
    "R1": Colour(value="#009e73", meaning="the most likely words, judged again"),
    "R2": Colour(value="#7fcdbb", meaning="the next most likely words, judged again"),
    "WBWR": Colour(value="#cc79a7", meaning="the most likely words, each read by the model"),
    "I1": Colour(value="#e7a1c4", meaning="words that followed the last word before"),
    "I2": Colour(value="#a0559a", meaning="words that followed the last two words before"),
    "COPY": Colour(value="#c9b400", meaning="copied from the text or the source"),
}
OTHER = Colour(value="#9b7fd1", meaning="another part of this method")


def colour_of(partition: str) -> Colour:
    """Of a name that an explanation uses; what is not known (V2 of a mixture, your own partition) has one too."""
    if partition in COLOURS:
        return COLOURS[partition]
    if partition[:1] == "V" and partition[1:].isdigit():
        return Colour(value="#a9b4c2", meaning=f"softmax {partition[1:]} of the mixture")
    if partition[:1] == "R" and partition[1:].isdigit():
        return Colour(value="#b8e0d2", meaning=COLOURS["R2"].meaning)
    return OTHER


VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
SEEN = 0.0005  # probability that is shown as 0.1 %


def bars(found: Sequence[NextWords]) -> str:
    """All columns on one scale, the legend below them."""
    most = max((word.probability for each in found for word in each.probed.words), default=1.0)
    columns = "".join(_column(number, each, most) for number, each in enumerate(found))
    named = [[*(word.partition for word in each.probed.words), *_seen(each.probed.masses)] for each in found]
    used = dict.fromkeys(name for names in named for name in names)
    return f'<div class="ub-columns">{columns}</div>{legend([*used])}'


def legend(partitions: Sequence[str]) -> str:
    """What the names and colours mean."""
    rows = "".join(f"<li>{chip(name)} {escape(colour_of(name).meaning)}</li>" for name in partitions)
    return f'<ul class="ub-legend" aria-label="Legend: what set a word">{rows}</ul>'


def chip(partition: str) -> str:
    """The name of a partition on its colour."""
    return f'<span class="ub-chip" style="--ub-colour: {colour_of(partition).value}">{escape(partition)}</span>'


def visible(text: str) -> str:
    """A token as people can read it: a space before the word is shown, and so is what has no shape. Escaped."""
    shown = "".join(
        f'<span class="ub-faint">{VISIBLE[character]}</span>'
        if character in VISIBLE
        else escape(character if character.isprintable() else f"\\u{ord(character):04x}")
        for character in text
    )
    return shown or '<span class="ub-faint">(nothing)</span>'


def _column(number: int, each: NextWords, most: float) -> str:
    rows = "".join(_row(number, word, word.id in each.appendable, most) for word in each.probed.words)
    title = f"{escape(each.probed.model)} <small>{escape(each.probed.method)}</small>"
    words = f'<ol class="ub-words">{rows}</ol>'
    note = f'<p class="ub-note">{escape(each.note)}</p>' if each.note else ""
    return f'<section class="ub-card"><h3>{title}</h3>{words}{_masses(each.probed.masses)}{note}</section>'


def _row(number: int, word: ProbedWord, appendable: bool, most: float) -> str:
    share = 100 * word.probability / most if most > 0 else 0
    said = f"{word.text.strip() or word.text!r}, {word.probability:.1%}, set by {word.partition}"
    hint = "Append this word" if appendable else "This token can not be appended"
    return (
        f'<li><button type="button" class="ub-word" data-model="{number}" data-word="{word.id}"'
        f' aria-label="{escape(said)}" title="{hint}"{"" if appendable else " disabled"}'
        f' style="--ub-colour: {colour_of(word.partition).value}; --ub-share: {share:.1f}%">'
        f'<span class="ub-text">{visible(word.text)}</span>{chip(word.partition)}'
        f'<span class="ub-percent">{word.probability:.1%}</span></button></li>'
    )


def _seen(masses: Mapping[str, float]) -> dict[str, float]:
    """Those that are more than nothing when rounded."""
    return {name: mass for name, mass in masses.items() if mass >= SEEN}


def _masses(masses: Mapping[str, float]) -> str:
    """All words, not just those above: one bar, cut by what gave the probability."""
    parts = "".join(
        f'<span style="--ub-colour: {colour_of(name).value}; flex-grow: {mass:.4f}"></span>'
        for name, mass in _seen(masses).items()
    )
    told = ", ".join(f"{escape(name)} {mass:.1%}" for name, mass in _seen(masses).items())
    return f'<div class="ub-masses" aria-hidden="true">{parts}</div><p class="ub-note">All words: {told}</p>'


STRONGEST = 70  # per cent of the colour behind a share of 1: the number on it stays readable


def heat_map(found: Sequence[Shuffled], waiting: Sequence[str] = ()) -> str:
    """A map for each model."""
    maps = "".join(map(_map, found))
    maps += "".join(
        f'<section class="ub-card ub-waiting"><h3>{escape(name)}</h3><p>shuffling…</p></section>' for name in waiting
    )
    note = (
        '<p class="ub-note">A row is one order of the list, a column one option: its share among the options, and '
        "the place it was listed at. <b>Bold</b>: the most likely of its row. If order did not matter, all rows would "
        "look the same. Evenness is 1 if all options are equally likely.</p>"
    )
    return f'<div class="ub-columns ub-wide">{maps}</div>{note}'


def _map(each: Shuffled) -> str:
    options = each.row.options
    head = "".join(f'<th scope="col">{escape(option)}</th>' for option in options)
    body = "".join(
        f'<tr><th scope="row">{number}</th>{_cells(order, share, options)}</tr>'
        for number, (order, share) in enumerate(zip(each.orders, each.shares, strict=True), 1)
    )
    row = each.row
    facts = {
        "evenness": f"{row.evenness:.3f}",
        "winner": escape(row.winner),
        "winner changes": f"{row.winner_changes:.0%}",
        "all options": f"{row.mass:.1%}",
    }
    told = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return (
        f'<section class="ub-card"><h3>{escape(each.model)} <small>{escape(each.method)}</small></h3>'
        f'<dl class="ub-facts">{told}</dl><div class="ub-scroll" tabindex="0" role="region" '
        f'aria-label="Heat map of {escape(each.model)}"><table class="ub-heat"><thead><tr><th scope="col">order</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _cells(order: Sequence[str], share: dict[str, float], options: Sequence[str]) -> str:
    best = max(share, key=lambda option: share[option])
    listed = ", ".join(order)
    return "".join(
        f'<td style="--ub-heat: {STRONGEST * share[option]:.1f}%" title="{escape(listed)}"'
        f"{' class=ub-best' if option == best else ''}>{share[option]:.0%}<sub>{order.index(option) + 1}</sub></td>"
        for option in options
    )


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
