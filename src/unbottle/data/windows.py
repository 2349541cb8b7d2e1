"""Windows: a row of tokens, a few hundred at a time, as a language model reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset

from unbottle.data.tokens import token_pieces

SHORTEST = 2  # a token, and one to predict


class Windows(Dataset):
    """Windows of `length` tokens, one every `stride` (its length, if not given); the last may be shorter.

    Each window is {"input_ids", "labels"}, which are equal: models shift labels themselves. With `whole` a shorter last
    window is left out, as a batch without padding wants it.
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None, *, whole: bool = False) -> None:
        self.tokens, self.length, self.stride = np.asarray(tokens), length, stride or length
        check_length(length)
        if self.stride < 1:
            raise ValueError(f"stride {stride}: give a number of at least 1.")
        shortest = length if whole else SHORTEST
        if len(self.tokens) < shortest:
            what = f"a window of {length}" if whole else "a word and the one after it"
            raise ValueError(f"the text is {len(self.tokens)} tokens long, too short for {what}. Give more text.")
        within = (len(self.tokens) - length) // self.stride + 1  # windows that are whole
        starts = -(-max(0, len(self.tokens) - length) // self.stride) + 1  # the last is the first to reach the end
        room = (len(self.tokens) - SHORTEST) // self.stride + 1  # windows with a token to predict
        self.count = within if whole else min(starts, room)

    def __len__(self) -> int:
        return self.count

    def fingerprint(self) -> str:
        """Tells these windows from any others."""
        shape = f"{len(self.tokens)} {self.length} {self.stride} {self.count}"
        made = hashlib.sha256(shape.encode())
        made.update(np.ascontiguousarray(self.tokens, dtype=np.int64).data)
        return made.hexdigest()

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        if not -self.count <= place < self.count:
            raise IndexError(f"window {place} of {self.count}")
        start = (place % self.count) * self.stride
        return window(self.tokens[start : start + self.length])


class StreamedWindows(IterableDataset):
    """Whole windows of texts that are read as they are needed, from the start again when they end.

    `texts` makes the texts anew each time it is called, or can be iterated over more than once. Same texts, same
    windows, so a training goes on after a break by skipping what it had read.
    """

    def __init__(self, texts: Iterable[Any] | Callable[[], Iterable[Any]], tokenizer: Any, length: int) -> None:
        check_length(length)
        self.texts, self.tokenizer, self.length = texts, tokenizer, length

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            found = False
            for tokens in self._once():
                found = True
                yield window(tokens)
            if not found:
                raise ValueError(f"the text is shorter than a window of {self.length} tokens. Give more text.")

    def _once(self) -> Iterator[np.ndarray]:
        waiting = np.zeros(0, dtype=np.int32)
        texts = self.texts() if callable(self.texts) else self.texts
        for piece in token_pieces(texts, self.tokenizer):
            waiting = np.concatenate([waiting, piece])
            whole = len(waiting) // self.length
            yield from waiting[: whole * self.length].reshape(whole, self.length)
            waiting = waiting[whole * self.length :]


def window(tokens: np.ndarray) -> dict[str, torch.Tensor]:
    ids = torch.from_numpy(tokens.astype(np.int64))
    return {"input_ids": ids, "labels": ids.clone()}


def check_length(length: int) -> None:
    if length < SHORTEST:
        raise ValueError(f"length {length}: a window needs at least {SHORTEST} tokens, one to read and one to predict.")
