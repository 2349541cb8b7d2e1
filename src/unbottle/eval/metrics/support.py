"""Support: names and numbers of a summary that its source has. No model is needed, and it always runs."""

from __future__ import annotations

import re

from unbottle.eval.metrics.numbers import SPELLED, numbers, possible_numbers
from unbottle.eval.metrics.tokens import tokens
from unbottle.eval.proper_nouns import Tagger, words_of

POSSESSIVE = re.compile(r"'s$")
ONE = re.compile(r"\bone\b", re.IGNORECASE)  # more often a pronoun than a number, and in every source


def support(summary: str, source: str, tagger: Tagger) -> float | None:
    """Share of the different names and numbers of a summary that occur in its source; None if it has none.

    A name is a word that the tagger takes for a proper noun. Case, a possessive 's, separators of thousands and
    whether a number up to twenty is spelled make no difference; `one` is no number of a summary. What
    occurs in the source may still be said of someone else: support finds invented names and numbers, not every error.
    """
    made = items(summary, tagger)
    words = {*tokens(source)}
    there = words | {part for word in words for part in word.split("'")} | possible_numbers(source)
    return sum(item in there for item in made) / len(made) if made else None


def items(summary: str, tagger: Tagger) -> set[str]:
    """Names and numbers of a summary, each once. The summary is tagged by itself: the source must not decide."""
    names = {POSSESSIVE.sub("", part) for word in words_of(summary, tagger(summary)) for part in tokens(word)}
    names = {name for name in names if name not in SPELLED and not any(char.isdigit() for char in name)}
    return names | numbers(ONE.sub("", summary))


def implementation(tagger: Tagger) -> str:
    return (
        f"unbottle.eval.metrics.support: names by {tagger.description}, and numbers; mean over summaries that have any"
    )
