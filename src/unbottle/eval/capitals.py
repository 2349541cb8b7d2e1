"""Proper nouns by their capital letters: no model, no data, English and languages that write like it."""

from __future__ import annotations

import re
from collections import Counter

Span = tuple[int, int]

WORD = re.compile(r"[^\W_]+")
SENTENCE_END = re.compile(r"[.!?:;]|\n|=|[\"“”«»(\[]|(?<!\w)['\u2018`]")  # a capital after these need not be a name
ABBREVIATED = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|Lt|Col|Gen|Capt|Sgt|Rev|Gov|Sen|No|vs|[A-Z])\s?\.\s*$")
LISTED = """
a about above after again against all almost along already also although always among an and another any are as at
away back be because been before behind being below between both but by can could despite did do does down due during
each eight either eleven even eventually every few finally five following for four from further had half has have
having he hence her here herself him himself his how however i if in indeed initially inside instead into is it its
itself just last later least less like many me meanwhile might mine more moreover most much must my near nearly
neither never nevertheless next nine no nobody none nor not nothing now of off often on once one only onto or other
others our out over overall own per perhaps please rather recently same seven several shall she should similarly since
six so some someone something sometimes soon still such ten than that the their them themselves then there thereafter
therefore these they this those though three through throughout thus to today together too toward towards twelve two
under unlike until up upon usually very was we well were what when whenever where whereas wherever whether which while
who whom whose why will with within without would yes yet you your
"""
COMMON = frozenset(LISTED.split())


class Capitals:
    """A word is a proper noun if it has a capital where only names have one.

    1. Within a sentence, a capitalised word is one, unless it is among about 200 common words (I, The, However).
    2. At the start of a sentence, of a line, a heading or a quotation, it is one if the same word is capitalised
       within a sentence of the text more often than it is written small; or if it is never written small in the text
       and is followed by a word of rule 1, or has two capitals or more (NATO).
    So Monday, May and French are, and `von` is not. Spaces before punctuation, as in WikiText
    (`a well @-@ known man .`), change nothing.
    """

    name = "rules"
    version = "1"
    description = "rules: capital letters and a list of common words (unbottle.eval.capitals), no model"

    def __call__(self, text: str) -> list[Span]:
        words = [(match.group(), *match.span()) for match in WORD.finditer(text)]
        capital = [word[0].isupper() and word.lower() not in COMMON for word, *_ in words]
        first = [_starts_sentence(text, words[i - 1][2] if i else 0, start) for i, (_, start, _) in enumerate(words)]
        small = Counter(word for word, *_ in words if word[0].islower())
        inside = Counter(words[i][0] for i in range(len(words)) if capital[i] and not first[i])

        def proper(i: int) -> bool:
            word = words[i][0]
            if not capital[i] or not first[i]:
                return capital[i]
            if inside[word] > small[word.lower()]:
                return True
            named = i + 1 < len(words) and capital[i + 1] and not first[i + 1]
            return not small[word.lower()] and (named or sum(letter.isupper() for letter in word) > 1)

        return [(start, end) for i, (_, start, end) in enumerate(words) if proper(i)]


def _starts_sentence(text: str, before: int, start: int) -> bool:
    """Whether what lies between two words can end a sentence; the first word of a text starts one."""
    if before == 0:
        return True
    if not SENTENCE_END.search(text, before, start):
        return False
    return not ABBREVIATED.search(text[max(before - 10, 0) : start])
