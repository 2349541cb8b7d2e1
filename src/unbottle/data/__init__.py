"""Texts, and what models are trained on: tokens in windows, or pairs of document and summary."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULES = {
    "NAMED": "named",
    "NamedPairs": "named",
    "PairSource": "pairs",
    "Pairs": "pair_tokens",
    "StreamedWindows": "windows",
    "TextSource": "texts",
    "Windows": "windows",
    "read_pairs": "pairs",
    "read_texts": "texts",
    "split": "tokens",
    "tokens_of": "tokens",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: whether a file is there can be said without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
