"""Texts as tokens, cut where they are too long, with what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def truncated(tokenizer: Any, texts: Sequence[str], most: int) -> list[tuple[list[int], int]]:
    """For each text its tokens, at most `most` with the special ones, and how many were dropped at the end."""
    options: dict[str, Any] = {"return_attention_mask": False, "verbose": False}
    found = tokenizer(list(texts), **options)["input_ids"] if texts else []
    long = [place for place, ids in enumerate(found) if len(ids) > most]
    cut = tokenizer([texts[i] for i in long], truncation=True, max_length=most, **options)["input_ids"] if long else []
    short = dict(zip(long, cut, strict=True))
    return [(list(short.get(i, ids)), len(ids) - len(short.get(i, ids))) for i, ids in enumerate(found)]
