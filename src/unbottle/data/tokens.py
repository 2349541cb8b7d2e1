"""Tokenized data: one row of token ids, windows of it for language models, and pairs for encoder-decoder models."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.data.sources import PARTS, cut
from unbottle.hf.pretrained import truncated

PIECE = 100_000  # characters of a long text that are tokenised at a time
PIECES_PER_CALL = 64  # pieces in one call: the tokenizer takes them in parallel
SHORTEST = 2  # a token, and one to predict
HASHED = 1 << 22  # tokens at a time
TEXTS_PER_CALL = 256  # texts in one call: the tokenizer takes them in parallel
TokenIds = np.ndarray  # one row
Texts = Iterable[Mapping[str, str]]  # rows with a text in the column `text`


def tokens_of(texts: Texts, tokenizer: Tokenizer) -> np.ndarray:
    """All texts, one after the other, as one row of token ids.

    As in the paper there are no special tokens, and nothing stands between two texts.
    """
    pieces = [*token_pieces(texts, tokenizer)]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int32)


def token_pieces(texts: Texts, tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    """The same row of token ids, a piece at a time."""
    pieces = (piece for row in texts for piece in cut(row["text"], PIECE) if piece)
    while batch := [*islice(pieces, PIECES_PER_CALL)]:
        for ids in tokenizer(batch, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]:
            yield np.asarray(ids, dtype=np.int32)


def split(tokens: np.ndarray, fractions: tuple[float, float, float] = (0.96, 0.02, 0.02)) -> dict[str, np.ndarray]:
    """Consecutive parts train, valid, test, not shuffled. In the paper: 2 % valid, then 2 % test."""
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions {fractions}: give three of them (train, valid, test) that sum to 1.")
    ends = [round(len(tokens) * sum(fractions[: number + 1])) for number in range(3)]
    starts = [0, *ends[:-1]]
    return {name: tokens[start:end] for name, start, end in zip(PARTS, starts, ends, strict=True)}


class Windows(Dataset):
    """Windows of `length` tokens, one every `stride` (its length, if not given); the last may be shorter.

    Each window is {"input_ids", "labels"}, which are equal: models shift labels themselves. With `whole` a shorter last
    window is left out, as a batch without padding wants it.
    """

    def __init__(
        self,
        tokens: np.ndarray | torch.Tensor | Sequence[int],
        length: int,
        stride: int | None = None,
        *,
        whole: bool = False,
    ) -> None:
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
        """A hash of all windows."""
        shape = f"{len(self.tokens)} {self.length} {self.stride} {self.count}"
        digest = hashlib.sha256(shape.encode())
        for start in range(0, len(self.tokens), HASHED):  # a mapped file may be larger than the memory
            digest.update(np.ascontiguousarray(self.tokens[start : start + HASHED], dtype=np.int64).data)
        return digest.hexdigest()

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        if not -self.count <= place < self.count:
            raise IndexError(f"window {place} of {self.count}")
        start = (place % self.count) * self.stride
        return window(self.tokens[start : start + self.length])


class StreamedWindows(IterableDataset):
    """Complete windows of texts that are read as they are needed, and again from the start when they end.

    `texts` can be iterated over more than once, or is a function that returns the texts. The same texts give the same
    windows, so training resumes by skipping those it has read.
    """

    def __init__(self, texts: Texts | Callable[[], Texts], tokenizer: Tokenizer, length: int) -> None:
        check_length(length)
        self.texts, self.tokenizer, self.length = texts, tokenizer, length

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            empty = True
            for tokens in self._once():
                empty = False
                yield window(tokens)
            if empty:
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


class Pairs(Dataset):
    """Each pair is {"input_ids", "labels"}: `prefix` and a document, and its summary with an end.

    Both are cut at the end where they are longer than `source_length` and `target_length` tokens, special ones
    included; `truncated_documents` and `truncated_summaries` count those. A tokenizer that adds no end token gets one
    added to its summaries: without it no model learns to stop. Nothing is padded here: batches are, and padding is
    neither read nor a label.
    """

    def __init__(
        self,
        pairs: Iterable[Mapping[str, str]],
        tokenizer: Tokenizer,
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
        while batch := [*islice(rows, TEXTS_PER_CALL)]:
            documents = [prefix + row["document"] for row in batch]
            for ids, dropped in truncated(tokenizer, documents, source_length):
                sources.append(np.asarray(ids, dtype=np.int32))
                self.truncated_documents += dropped > 0
            for ids, dropped in truncated(tokenizer, [row["summary"] for row in batch], target_length, target=True):
                end = tokenizer.eos_token_id
                if end is not None and end not in ids:  # mBART's is followed by the language
                    ids = [*ids[: target_length - 1], end]
                targets.append(np.asarray(ids, dtype=np.int32))
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
        """A hash of all pairs."""
        digest = hashlib.sha256()
        for part in (self._sources, self._targets):
            digest.update(part.ends.data)
            digest.update(part.values.data)
        return digest.hexdigest()


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
