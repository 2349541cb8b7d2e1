"""Texts, and what models are trained on: tokens in windows, or pairs of document and summary."""

from unbottle.data.named import NAMED, NamedPairs
from unbottle.data.pair_tokens import Pairs
from unbottle.data.pairs import PairSource, read_pairs
from unbottle.data.texts import TextSource, read_texts
from unbottle.data.tokens import split, tokens_of
from unbottle.data.windows import StreamedWindows, Windows

__all__ = [
    "NAMED",
    "NamedPairs",
    "PairSource",
    "Pairs",
    "StreamedWindows",
    "TextSource",
    "Windows",
    "read_pairs",
    "read_texts",
    "split",
    "tokens_of",
]
