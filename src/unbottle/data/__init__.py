"""Data: texts, windows of tokens, and pairs of a document and a summary."""

import importlib
from typing import TYPE_CHECKING

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
_MODULES = ("sources", "text", "summaries", "tokens")  # the first imports neither torch nor datasets


def __getattr__(name: str) -> object:
    """Import on first use: the names of data sets are checked without torch."""
    if name in __all__:
        for part in _MODULES:
            if hasattr(module := importlib.import_module(f"{__name__}.{part}"), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
