"""Texts, and what models are trained on: tokens in windows, or pairs of document and summary."""

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Imported on first use: whether a file is there can be said without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
