"""Texts, and what a language model is trained on: tokens in windows."""

from unbottle.data.texts import TextSource, read_texts
from unbottle.data.tokens import split, tokens_of
from unbottle.data.windows import StreamedWindows, Windows

__all__ = ["StreamedWindows", "TextSource", "Windows", "read_texts", "split", "tokens_of"]
