"""Which characters a token stands for, and so which word it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Span = tuple[int, int]


def token_spans(ids: Sequence[int], tokenizer: Any) -> tuple[str, list[Span]]:
    """The text of tokens, and where in it each of them stands.

    A fast tokenizer tells it, if it cuts the text into the same tokens again. If not (a window may begin within a
    word), token i is what decoding i + 1 tokens adds to decoding i of them.
    """
    text = decoded(ids, tokenizer)
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(again["input_ids"]) == list(ids):
            return text, [(first, end) for first, end in again["offset_mapping"]]
    spans, before = [], ""
    for i in range(len(ids)):
        now = decoded(ids[: i + 1], tokenizer)
        spans.append((len(before.rstrip("\ufffd")), len(now)))  # a character may be several tokens: � until it is whole
        before = now
    return text, spans


def decoded(ids: Sequence[int], tokenizer: Any) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def tokens_of_words(ids: Sequence[int], tokenizer: Any, words: Callable[[str], list[Span]]) -> list[bool]:
    """Which tokens are in a word that `words` finds in their text; the space before a word does not count."""
    text, spans = token_spans(ids, tokenizer)
    inside = bytearray(len(text))
    for first, end in words(text):
        inside[first:end] = bytes([1]) * (end - first)
    return [any(inside[i] and not text[i].isspace() for i in range(first, min(end, len(text)))) for first, end in spans]
