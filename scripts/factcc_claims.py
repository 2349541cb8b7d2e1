"""Claims to train FactCC on: sentences of a document, as they are or with something swapped.

As Kryscinski et al. (2020) construct them, and as the paper does for the data sets that FactCC was not trained on:
a sentence of the document is a claim that the document supports; the same sentence with another name, number or
pronoun, or with a negation added or removed, is one that it does not. Differs from both: positives are
not translated to another language and back, which takes translation models, so they are literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from unbottle.eval.metrics.tokens import sentences
from unbottle.eval.proper_nouns import Span, Tagger

ENTITY, NUMBER, PRONOUN, NEGATION = "entity", "number", "pronoun", "negation"
SWAPS = (ENTITY, NUMBER, PRONOUN, NEGATION)
NUMBERS = re.compile(r"(?<![\w.,])\d+(?:[.,:]\d+)*(?![\w])")
PRONOUNS = (  # words of a group can stand for each other in a sentence, and mean somebody else
    ("he", "she", "they", "we", "you", "I"),
    ("him", "them", "us", "me"),
    ("his", "their", "our", "your", "my"),
    ("himself", "herself", "themselves", "ourselves", "myself"),
)
AUXILIARIES = "is|are|was|were|will|would|can|could|should|has|had|have|does|did|do|must|may|might"
NEGATED = re.compile(rf"\b({AUXILIARIES})(?:\s+not\b|n't\b)", re.IGNORECASE)
AFFIRMED = re.compile(rf"\b({AUXILIARIES})\b(?!\s+not\b|n't)", re.IGNORECASE)
FEWEST_WORDS = 4  # shorter sentences ("Sure.") say nothing that could be false


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence about a document. `swap` is what was changed in it; without one, the document supports it."""

    document: str
    text: str
    swap: str | None = None

    @property
    def supported(self) -> bool:
        return self.swap is None


def claims(documents: Iterable[str], tagger: Tagger, *, seed: int = 0, per_document: int = 2) -> list[Claim]:
    """For each document up to `per_document` sentences, drawn at random, as they are and with one swap each.

    A sentence in which nothing can be swapped gives a positive only if another gives a negative, so that there are as
    many of both. Speakers of dialogues ("Anna: ...") stay in the sentence: they are who says it.
    """
    random = Random(f"claims {seed}")
    result: list[Claim] = []
    for document in documents:
        candidates = [text for text in sentences(document) if len(text.split()) >= FEWEST_WORDS]
        random.shuffle(candidates)
        made = 0
        for text in candidates:
            swap = swapped(text, document, tagger, random)
            if swap is None:
                continue
            result += [Claim(document=document, text=text), Claim(document=document, text=swap[1], swap=swap[0])]
            made += 1
            if made == per_document:
                break
    return result


def swapped(text: str, document: str, tagger: Tagger, random: Random) -> tuple[str, str] | None:
    """The kind of a swap that the sentence allows, drawn at random, and the sentence after it; None if none is."""
    for kind in random.sample(SWAPS, len(SWAPS)):
        changed = SWAPPERS[kind](text, document, tagger, random)
        if changed is not None and changed != text and changed not in document:
            return kind, changed
    return None


def swap_entity(text: str, document: str, tagger: Tagger, random: Random) -> str | None:
    """Another name of the document in place of one of the sentence."""
    others = {document[start:end] for start, end in tagger(document)}
    return _exchange(text, tagger(text), others, random)


def swap_number(text: str, document: str, tagger: Tagger, random: Random) -> str | None:
    """Another number of the document, or, if it has no other, one that is larger by a few."""
    spans = [match.span() for match in NUMBERS.finditer(text)]
    others = {match.group() for match in NUMBERS.finditer(document)} - {text[start:end] for start, end in spans}
    if not others:
        others = {str(int(text[start:end]) + random.randint(1, 9)) for start, end in spans if text[start:end].isdigit()}
    return _exchange(text, spans, others, random)


def swap_pronoun(text: str, document: str, tagger: Tagger, random: Random) -> str | None:
    """Another person in place of he, him or his."""
    groups = {word.lower(): group for group in PRONOUNS for word in group}
    matches = [match for match in re.finditer(r"\b[A-Za-z]+\b", text) if match.group().lower() in groups]
    if not matches:
        return None
    match = random.choice(matches)
    group = groups[match.group().lower()]
    return _exchange(text, [match.span()], {word for word in group if word.lower() != match.group().lower()}, random)


def swap_negation(text: str, document: str, tagger: Tagger, random: Random) -> str | None:
    """Without its negation, or with one after an auxiliary verb."""
    if negated := [*NEGATED.finditer(text)]:
        match = random.choice(negated)
        return f"{text[: match.start()]}{match.group(1)}{text[match.end() :]}"
    if affirmed := [*AFFIRMED.finditer(text)]:
        match = random.choice(affirmed)
        return f"{text[: match.end()]} not{text[match.end() :]}"
    return None


SWAPPERS = {ENTITY: swap_entity, NUMBER: swap_number, PRONOUN: swap_pronoun, NEGATION: swap_negation}


def _exchange(text: str, spans: Iterable[Span], words: set[str], random: Random) -> str | None:
    """One of the words in place of one of the spans, whose capital letter at the start of a sentence it keeps."""
    places = [(start, end) for start, end in spans if words - {text[start:end]}]
    if not places:
        return None
    start, end = random.choice(places)
    word = random.choice(sorted(words - {text[start:end]}))
    if start == 0 and text[:1].isupper():
        word = word[:1].upper() + word[1:]
    return text[:start] + word + text[end:]
