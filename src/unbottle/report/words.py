"""Words coloured by the partition that set their logit: lists of next words, and running text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from unbottle.report.colours import colour


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
