"""bars: horizontal bars as SVG, drawn in the colours of the page.

Words coloured by the partition that set their logit: lists of next words, and running text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from unbottle.report.palette import SERIES, colour

WIDTH, VALUE = 480, 60  # of the picture, of numbers to the right of a bar
LETTER = 7.3  # of names to the left of a bar, in the mean
THICK, GAP, APART = 18, 4, 14  # of a bar, between two, between groups


def bars(groups: Mapping[str, Mapping[str, Sequence[float]]], *, label: str, digits: int = 2) -> str:
    """Group -> name -> values: the bar is their mean, dots are the values if there are several.

    All bars start at 0, so that lengths can be compared. A group without a name needs no heading.
    """
    values = [value for group in groups.values() for each in group.values() for value in each]
    most = max(values, default=1.0) or 1.0
    names = [*dict.fromkeys(name for group in groups.values() for name in group)]
    left = min(WIDTH / 2, LETTER * max((len(name) for name in names), default=0) + 10)
    shapes: list[str] = []
    y = 0.0
    for title, group in groups.items():
        if title:
            shapes.append(_text(0, y + 14, title, bold=True))
            y += 22
        for name, each in group.items():
            colour = SERIES[names.index(name) % len(SERIES)]
            shapes += _bar(name, each, (left, y), (WIDTH - left - VALUE) / most, colour, digits)
            y += THICK + GAP
        y += APART
    shapes.append(_text(0, y + 4, label, kind="quiet"))
    height = y + 12
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img" aria-label="{escape(label)}">'
        f"{''.join(shapes)}</svg>"
    )


def _bar(
    name: str, values: Sequence[float], place: tuple[float, float], scale: float, colour: str, digits: int
) -> list[str]:
    left, y = place
    mean = sum(values) / len(values)
    length = max(mean * scale, 0.0)
    shapes = [
        _text(left - 8, y + 13, name, end=True),
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{length:.1f}" height="{THICK}" rx="2" style="fill:{colour}"/>',
        _text(left + max(length, *(value * scale for value in values)) + 8, y + 13, f"{mean:.{digits}f}"),
    ]
    if len(values) > 1:
        shapes += [
            f'<circle cx="{left + value * scale:.1f}" cy="{y + THICK / 2:.1f}" r="3" '
            'style="fill:var(--page);stroke:var(--text)"/>'
            for value in values
        ]
    return shapes


def _text(x: float, y: float, text: str, *, bold: bool = False, end: bool = False, kind: str = "") -> str:
    more = ' font-weight="600"' * bold + ' text-anchor="end"' * end + (f' class="{kind}"' if kind else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def next_words(title: str, words: Sequence[Mapping[str, Any]]) -> str:
    """The most likely words of one model; the bar behind each is its probability."""
    rows = "".join(
        f'<div class="word"><div class="bar" style="width:{100 * word["probability"]:.1f}%;'
        f'background:{colour(word["partition"])}"></div>'
        f"<span>{escape(shown(word['text']))}</span>"
        f'<span class="chance">{word["probability"]:.3f}</span>'
        f'<span class="writer">{escape(word["partition"])}</span></div>'
        for word in words
    )
    return f"<div><h3>{escape(title)}</h3>{rows}</div>"


def side_by_side(columns: Sequence[str]) -> str:
    return f'<div class="columns">{"".join(columns)}</div>'


def running_text(read: Sequence[str], tokens: Sequence[str], partitions: Sequence[str], tips: Sequence[str]) -> str:
    """A text as it stands: the start grey, each further token in the colour of its partition, with a tip."""
    first = f'<span class="quiet">{escape("".join(read))}</span>'
    rest = "".join(
        f'<span class="token" style="border-color:{colour(partition)};color:{colour(partition)}" '
        f'title="{escape(tip)}">{escape(token)}</span>'
        for token, partition, tip in zip(tokens, partitions, tips, strict=True)
    )
    return f"<pre>{first}{rest}</pre>"


def shown(text: str) -> str:
    """A token as one line: what can not be seen is written out."""
    if text.strip() and text.isprintable():
        return text
    return repr(text)[1:-1].replace(" ", "\N{OPEN BOX}") or "(nothing)"
