"""bars: next words as HTML, a column of buttons for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from unbottle.app.colours import colour_of
from unbottle.app.next_words import NextWords
from unbottle.eval.probe import ProbedWord

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
