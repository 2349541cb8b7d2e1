"""Pairs: documents and summaries as tokens, as an encoder-decoder model is trained on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from unbottle.hf.truncated import truncated

TOGETHER = 256  # texts in one call: the tokenizer takes them in parallel


class Pairs(Dataset):
    """Each pair is {"input_ids", "labels"}: `prefix` and a document, and its summary with an end.

    Both are cut at the end where they are longer than `source_length` and `target_length` tokens, special ones
    included; `truncated_documents` and `truncated_summaries` count those. A tokenizer that adds no end token gets one
    added to its summaries: without it no model learns to stop. Nothing is padded here: batches are, and padding is
    neither read nor a label.
    """

    def __init__(
        self,
        pairs: Iterable[Any],
        tokenizer: Any,
        *,
        source_length: int = 1024,
        target_length: int = 128,
        prefix: str = "",
    ) -> None:
        for name, length in (("source_length", source_length), ("target_length", target_length)):
            if length < 2:
                raise ValueError(f"{name} {length}: give a number of at least 2.")
        self.source_length, self.target_length, self.prefix = source_length, target_length, prefix
        self.truncated_documents = self.truncated_summaries = 0
        sources, targets = [], []
        rows = iter(pairs)
        while batch := [*islice(rows, TOGETHER)]:
            documents = [prefix + row["document"] for row in batch]
            for ids, dropped in truncated(tokenizer, documents, source_length):
                sources.append(np.asarray(ids, dtype=np.int32))
                self.truncated_documents += dropped > 0
            for ids, dropped in truncated(tokenizer, [row["summary"] for row in batch], target_length):
                ended = _ended(ids, tokenizer.eos_token_id, target_length)
                targets.append(np.asarray(ended, dtype=np.int32))
                self.truncated_summaries += dropped > 0
        self._sources, self._targets = Ragged(sources), Ragged(targets)

    @property
    def longest_source(self) -> int:
        return self._sources.longest

    @property
    def longest_target(self) -> int:
        return self._targets.longest

    @property
    def largest_token(self) -> int:
        return max(int(part.values.max(initial=0)) for part in (self._sources, self._targets))

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        if not -len(self) <= place < len(self):
            raise IndexError(f"pair {place} of {len(self)}")
        source, target = self._sources[place % len(self)], self._targets[place % len(self)]
        return {
            "input_ids": torch.from_numpy(source.astype(np.int64)),
            "labels": torch.from_numpy(target.astype(np.int64)),
        }

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return (self[place] for place in range(len(self)))

    def fingerprint(self) -> str:
        """Tells these pairs from any others."""
        made = hashlib.sha256()
        for part in (self._sources, self._targets):
            made.update(part.ends.data)
            made.update(part.values.data)
        return made.hexdigest()


class Ragged:
    """Rows of different lengths in one array."""

    def __init__(self, rows: list[np.ndarray]) -> None:
        self.values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        self.ends = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)

    @property
    def longest(self) -> int:
        return int(np.diff(self.ends).max(initial=0))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, place: int) -> np.ndarray:
        return self.values[self.ends[place] : self.ends[place + 1]]


def _ended(ids: list[int], end: int | None, most: int) -> list[int]:
    return ids if end is None or ids[-1:] == [end] else [*ids[: most - 1], end]
