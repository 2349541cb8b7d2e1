"""Data: texts, windows of tokens, and pairs of a document and a summary."""

from typing import TYPE_CHECKING

from unbottle.lazy_import import on_first_use

if TYPE_CHECKING:
    from unbottle.data.sources import NAMED, NamedPairs
    from unbottle.data.summaries import PairSource, read_pairs
    from unbottle.data.text import TextSource, read_texts
    from unbottle.data.tokens import Pairs, StreamedWindows, Windows, split, tokens_of

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

__getattr__ = on_first_use(__name__, __all__, ("sources", "text", "summaries", "tokens"))  # the first without torch
