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
_MODULES = {
    "NAMED": "sources",
    "NamedPairs": "sources",
    "PairSource": "summaries",
    "Pairs": "tokens",
    "StreamedWindows": "tokens",
    "TextSource": "text",
    "Windows": "tokens",
    "read_pairs": "summaries",
    "read_texts": "text",
    "split": "tokens",
    "tokens_of": "tokens",
}


def __getattr__(name: str) -> object:
    """Import a name on first use: `data.sources` must not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
