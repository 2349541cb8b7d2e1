"""Proper nouns by spaCy, NLTK or rules, identifiers of programs, and the tokens that such words consist of."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedTokenizerBase as Tokenizer

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
    description = "rules: capital letters and a list of common words (unbottle.eval.proper_nouns), no model"

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


SPACY_MODEL = "en_core_web_sm"
NLTK_TAGGER = "averaged_perceptron_tagger_eng"
CACHED = 4096  # texts
TAGGERS = ("auto", "spacy", "spacy:PATH", "nltk", "rules", "identifiers")
PIECE = re.compile(r"\w+|[^\w\s]")


class Tagger(Protocol):
    """Returns the start and end of each proper noun of a text; the attributes say which tagger it is."""

    name: str
    description: str

    def __call__(self, text: str) -> list[Span]: ...


class Spacy:
    """Tokens that spaCy tags PROPN."""

    name = "spacy"

    def __init__(self, model: str = SPACY_MODEL) -> None:
        try:
            import spacy

            # as a path, or spaCy would look for an installed package of that name first, which may be spaCy itself
            path = Path(model)
            self.pipeline = spacy.load(path if path.is_dir() else model, exclude=["ner", "parser", "lemmatizer"])
        except (ImportError, OSError, ValueError) as error:
            raise ValueError(
                f"tagger spacy: no spaCy with the model {model!r} here. pip install spacy && python -m spacy download "
                f"{SPACY_MODEL}, or give a folder with spacy:PATH, or take --tagger rules."
            ) from error
        meta = self.pipeline.meta
        used = f"{meta['lang']}_{meta['name']} {meta['version']}"
        self.description = f"spacy {spacy.__version__}, model {used}: PROPN"

        self._spans = lru_cache(maxsize=CACHED)(self._tag)  # rows of a table have the same references

    def __call__(self, text: str) -> list[Span]:
        return [*self._spans(text)]

    def _tag(self, text: str) -> tuple[Span, ...]:
        return tuple((token.idx, token.idx + len(token)) for token in self.pipeline(text) if token.pos_ == "PROPN")


class Nltk:
    """Words that the averaged perceptron of NLTK tags NNP or NNPS."""

    name = "nltk"

    def __init__(self) -> None:
        try:
            import nltk

            nltk.data.find(f"taggers/{NLTK_TAGGER}")
        except (ImportError, LookupError) as error:
            raise ValueError(
                f"tagger nltk: no NLTK with {NLTK_TAGGER} here. pip install nltk && python -m nltk.downloader "
                f"{NLTK_TAGGER}, or take --tagger rules."
            ) from error
        self.tag = nltk.pos_tag
        self.description = f"nltk {nltk.__version__}, {NLTK_TAGGER}: NNP and NNPS"

    def __call__(self, text: str) -> list[Span]:
        pieces = [*PIECE.finditer(text)]
        tags = self.tag([piece.group() for piece in pieces])
        return [piece.span() for piece, (_, tag) in zip(pieces, tags, strict=True) if tag in ("NNP", "NNPS")]


def tagger(name: str = "auto") -> Tagger:
    """The tagger called spacy, spacy:PATH, nltk, rules or, for programs, identifiers.

    `auto` takes the first of spacy, nltk and rules that is installed. Its `description` is part of every result. A
    tagger that is asked for by name and is not installed raises ValueError.
    """
    kind, _, path = name.partition(":")
    if kind == "spacy":
        return Spacy(path or SPACY_MODEL)
    by_name: dict[str, Callable[[], Tagger]] = {"nltk": Nltk, "rules": Capitals, "identifiers": Identifiers}
    if name in by_name:
        return by_name[name]()
    if name != "auto":
        raise ValueError(f"tagger {name!r}: unknown. Known: {', '.join(TAGGERS)}.")
    for candidate in (Spacy, Nltk):
        with suppress(ValueError):  # not installed, or without its model: auto means the next one
            return candidate()
    return Capitals()


def words_of(text: str, spans: list[Span]) -> list[str]:
    """The words at these spans."""
    return [text[first:end] for first, end in spans]


NAME = re.compile(r"[^\W\d]\w*")
UNLIKE_A_WORD = re.compile(r"_|\d|[^\W\d_][a-z]*[A-Z]")  # snake_case, utf8, camelCase; not Word
BEFORE = re.compile(r"(?:\.|\bdef |\bclass |\bimport |\bas )$")
AFTER = re.compile(r"\(|\[|\.[^\W\d]|\s?[-+*/%|&]?=(?!=)")


class Identifiers:
    """A name is an identifier if it is no keyword of Python, and written like no word of a sentence or used like none.

    Written: with an underscore, a digit, or a capital after its first letter. Used: after a dot, def, class, import or
    as; or before a bracket, a dot and a name, or an equals sign. A window may begin within a comment or a string, so
    nothing is parsed: a single plain word, as the n of `n + 1`, is missed.
    """

    name = "identifiers"
    description = (
        "identifiers: names of Python by how they are written and used (unbottle.eval.proper_nouns), no parser"
    )

    def __call__(self, text: str) -> list[Span]:
        return [match.span() for match in NAME.finditer(text) if self._is_identifier(text, match)]

    @staticmethod
    def _is_identifier(text: str, match: re.Match[str]) -> bool:
        if keyword.iskeyword(match.group()):
            return False
        first, end = match.span()
        return bool(
            UNLIKE_A_WORD.search(match.group())
            or BEFORE.search(text, max(0, first - 8), first)
            or AFTER.match(text, end)
        )


def token_spans(ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, list[Span]]:
    """The text of tokens, and where in it each of them stands.

    The offsets are those of a fast tokenizer if it splits the text into the same tokens again. If not (a window may
    begin within a word), token i is what decoding i + 1 tokens adds to decoding i of them.
    """
    text = decoded(ids, tokenizer)
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(again["input_ids"]) == list(ids):
            return text, [(first, end) for first, end in again["offset_mapping"]]
    spans, before = [], ""
    for i in range(len(ids)):
        now = decoded(ids[: i + 1], tokenizer)
        spans.append((len(before.rstrip("\ufffd")), len(now)))  # a character may be several tokens: � until it is whole
        before = now
    return text, spans


def decoded(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def tokens_of_words(ids: Sequence[int], tokenizer: Tokenizer, words: Callable[[str], list[Span]]) -> list[bool]:
    """Which tokens are in a word that `words` finds in their text; the space before a word does not count."""
    text, spans = token_spans(ids, tokenizer)
    inside = bytearray(len(text))
    for first, end in words(text):
        inside[first:end] = bytes([1]) * (end - first)
    return [any(inside[i] and not text[i].isspace() for i in range(first, min(end, len(text)))) for first, end in spans]
