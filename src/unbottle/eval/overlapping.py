"""Windows that overlap, so that no token but the first is predicted from little context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

IGNORED = -100  # a label that is not scored, in transformers and here


@dataclass(frozen=True)
class Overlapping(Sequence):
    """Window i holds `length` tokens from i * stride on. Each token is scored once, in the first window that has it.

    Labels of tokens that an earlier window scored are IGNORED. With stride = length nothing overlaps, and the first
    token of each window has no window that predicts it.
    """

    tokens: Any  # one row: a tensor, an array
    length: int
    stride: int

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"length {self.length}: a window needs 2 tokens or more, one to read and one to predict.")
        if not 1 <= self.stride <= self.length:
            raise ValueError(f"stride {self.stride}: expected 1 to {self.length}, the length of a window.")

    def __len__(self) -> int:
        rest = max(len(self.tokens) - self.length, 0)
        return int(len(self.tokens) > 0) + -(-rest // self.stride)

    def __getitem__(self, index: int) -> dict[str, Tensor]:  # type: ignore[override]
        if not 0 <= index < len(self):
            raise IndexError(index)
        first = index * self.stride
        part = self.tokens[first : first + self.length]
        ids = part.long() if isinstance(part, Tensor) else torch.from_numpy(np.array(part, dtype=np.int64))
        labels = ids.clone()
        if index:
            labels[: self.length - self.stride] = IGNORED
        return {"input_ids": ids, "labels": labels}
