"""Windows to train on, to choose a learning rate by, and held out: from anywhere in a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbottle.data import Windows
from unbottle.data.named import is_python
from unbottle.recipes.corpus import Corpus
from unbottle.recipes.demo.source_code import code

LIBRARY = {"train": "train", "valid": "base", "test": "test"}  # its parts; no model is trained from nothing here
EACH = 2  # windows of a file, at most: many files say more than long ones
CUT = (0.8, 0.1, 0.1)  # of a text in one piece


def windows_of(data: str, tokenizer: Any, length: int, tokens: dict[str, int]) -> dict[str, Windows]:
    """Windows of each part, at least so many tokens of it."""
    if is_python(data):
        library = code()
        return {
            part: library.windows(LIBRARY[part], tokenizer, length=length, tokens=count, each=EACH)[0]
            for part, count in tokens.items()
        }
    corpus = Corpus.of(data, tokenizer, CUT)
    return {part: spread(getattr(corpus, part), length, count, part) for part, count in tokens.items()}


def spread(tokens: np.ndarray, length: int, wanted: int, part: str) -> Windows:
    """Whole windows at equal distances: the first ones of a text would be of one or two articles."""
    have, count = len(tokens) // length, -(-wanted // length)
    if have < count:
        raise ValueError(
            f"the part {part!r} of the text has {len(tokens):,} tokens, and {count * length:,} are wanted. Give more "
            "text, or ask for fewer tokens."
        )
    starts = [place * have // count * length for place in range(count)]
    return Windows(np.concatenate([tokens[start : start + length] for start in starts]), length, whole=True)
