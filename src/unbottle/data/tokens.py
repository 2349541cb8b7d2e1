"""Tokens: all texts as one row of ids, and its parts for training, validation and test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from unbottle.data.pieces import cut

PIECE = 100_000  # characters of a long text that are tokenised at a time
TOGETHER = 64  # pieces in one call: the tokenizer takes them in parallel
PARTS = ("train", "valid", "test")


def tokens_of(texts: Iterable[Any], tokenizer: Any) -> np.ndarray:
    """All texts, one after the other, as one row of token ids.

    As in the paper there are no special tokens, and nothing stands between two texts.
    """
    found = [*token_pieces(texts, tokenizer)]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int32)


def token_pieces(texts: Iterable[Any], tokenizer: Any) -> Iterator[np.ndarray]:
    """The same, a piece at a time."""
    pieces = (piece for row in texts for piece in cut(row["text"], PIECE) if piece)
    while batch := [*islice(pieces, TOGETHER)]:
        for ids in tokenizer(batch, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]:
            yield np.asarray(ids, dtype=np.int32)


def split(tokens: np.ndarray, fractions: tuple[float, float, float] = (0.96, 0.02, 0.02)) -> dict[str, np.ndarray]:
    """train, valid, test: consecutive parts, not shuffled. The paper: the last 2 % is test, the 2 % before it valid."""
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions {fractions}: give three of them (train, valid, test) that sum to 1.")
    ends = [round(len(tokens) * sum(fractions[: number + 1])) for number in range(3)]
    starts = [0, *ends[:-1]]
    return {name: tokens[start:end] for name, start, end in zip(PARTS, starts, ends, strict=True)}
