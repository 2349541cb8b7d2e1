"""SharedBatches: several processes read together what one would read alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, Dataset, Sampler

NOTHING = -1  # the place of a row that teaches nothing


class SharedBatches(Sampler[list[int]]):
    """This process's part of each batch. No row is read twice, none is left out, and all have equally many batches.

    A last batch may have fewer rows than there are processes: who gets none gets NOTHING, since all must take part in
    each step.
    """

    def __init__(self, sampler: Any, batch: int, rank: int, processes: int) -> None:
        self.sampler, self.batch_size, self.rank, self.processes = sampler, batch, rank, processes

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for rows in BatchSampler(self.sampler, self.batch_size, drop_last=False):
            yield rows[self.rank :: self.processes] or [NOTHING]


class SharedRows(Dataset):
    """A data set in which NOTHING has a row too: one without labels."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        if place != NOTHING:
            row: dict[str, Tensor] = self.rows[place]
            return row
        return {**self.rows[0], "labels": torch.full_like(self.rows[0]["labels"], -100)}
