"""Sentences: each short text a row of its own, for training."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset


class Sentences(Dataset):
    """{"input_ids", "labels"} of each text. What is in one text is no context of another."""

    def __init__(self, texts: Sequence[str], tokenizer: Any) -> None:
        self.texts = list(texts)
        self.rows = [torch.tensor(ids) for ids in tokenizer(self.texts, add_special_tokens=False)["input_ids"]]
        self.length = max(map(len, self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[place], "labels": self.rows[place]}

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()
