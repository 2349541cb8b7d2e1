"""A long text in pieces that tokenise as the whole does."""

from __future__ import annotations

import re

WORD_END = re.compile(r"(?<=\S)(?=\s)")


def cut(text: str, size: int) -> list[str]:
    """Pieces of at least `size` characters, the last one shorter, cut between the end of a word and the space after it.

    Tokenizers that cut texts into words before anything else (GPT-2's, and most byte-level ones) never join what is on
    two sides of such a place. Where a tokenizer adds a space to the start of a text, it adds one to each piece.
    """
    pieces, start = [], 0
    while len(text) - start > size and (end := WORD_END.search(text, start + size)):
        pieces.append(text[start : end.start()])
        start = end.start()
    return [*pieces, text[start:]]
