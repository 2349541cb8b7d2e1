"""numbered: windows that know which they are, so that a batch that breaks a training can be named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

ROWS = "rows"  # of a window: its place in the data


def numbered(data: Any) -> Any:
    """The same data, each window with its place in it."""
    return Numbered(data) if hasattr(data, "__len__") else NumberedStream(data)


class Numbered(Dataset):
    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {**self.data[place], ROWS: torch.tensor([place])}


class NumberedStream(IterableDataset):
    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for place, window in enumerate(self.data):
            yield {**window, ROWS: torch.tensor([place])}
