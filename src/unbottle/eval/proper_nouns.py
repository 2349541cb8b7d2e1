"""Proper nouns: by spaCy, by NLTK, or by our own rules."""

from __future__ import annotations

import importlib.util
import re
from typing import Any, Protocol

from unbottle.eval.capitals import Capitals, Span
from unbottle.eval.identifiers import Identifiers

SPACY_MODEL = "en_core_web_sm"
NLTK_TAGGER = "averaged_perceptron_tagger_eng"
TAGGERS = ("auto", "spacy", "spacy:PATH", "nltk", "rules", "identifiers")
PIECE = re.compile(r"\w+|[^\w\s]")


class Tagger(Protocol):
    """Called with a text, gives the first and last-but-one character of each proper noun; the rest says who did it."""

    name: str
    version: str
    description: str

    def __call__(self, text: str) -> list[Span]: ...


class Spacy:
    """Tokens that spaCy tags PROPN."""

    name = "spacy"

    def __init__(self, model: str = SPACY_MODEL) -> None:
        try:
            import spacy

            self.pipeline: Any = spacy.load(model, exclude=["ner", "parser", "lemmatizer"])
        except (ImportError, OSError, ValueError) as error:
            raise ValueError(
                f"tagger spacy: no spaCy with the model {model!r} here. pip install spacy && python -m spacy download "
                f"{SPACY_MODEL}, or give a folder with spacy:PATH, or take --tagger rules."
            ) from error
        meta = self.pipeline.meta
        self.version = f"{meta['lang']}_{meta['name']} {meta['version']}"
        self.description = f"spacy {spacy.__version__}, model {self.version}: PROPN"

    def __call__(self, text: str) -> list[Span]:
        return [(token.idx, token.idx + len(token)) for token in self.pipeline(text) if token.pos_ == "PROPN"]


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
        self.tag: Any = nltk.pos_tag
        self.version = nltk.__version__
        self.description = f"nltk {self.version}, {NLTK_TAGGER}: NNP and NNPS"

    def __call__(self, text: str) -> list[Span]:
        pieces = [*PIECE.finditer(text)]
        tags = self.tag([piece.group() for piece in pieces])
        return [piece.span() for piece, (_, tag) in zip(pieces, tags, strict=True) if tag in ("NNP", "NNPS")]


def tagger(name: str = "auto") -> Tagger:
    """spacy, spacy:PATH, nltk, rules or, for programs, identifiers.

    `auto` takes the first of spacy, nltk and rules that is here. What was taken stands in `description`, and so in
    every result. One that was asked for by name and is not here raises.
    """
    kind, _, path = name.partition(":")
    if kind == "spacy":
        return Spacy(path or SPACY_MODEL)
    if name == "nltk":
        return Nltk()
    if name == "rules":
        return Capitals()
    if name == "identifiers":
        return Identifiers()
    if name != "auto":
        raise ValueError(f"tagger {name!r}: unknown. Known: {', '.join(TAGGERS)}.")
    for candidate in (Spacy, Nltk):
        if importlib.util.find_spec(candidate.name):
            try:
                return candidate()
            except ValueError:
                continue  # installed without its model: auto means the next one
    return Capitals()


def words_of(text: str, spans: list[Span]) -> list[str]:
    """The words at these places."""
    return [text[first:end] for first, end in spans]
