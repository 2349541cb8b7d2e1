"""Workspace: large buffers that are used again, because fresh memory costs as much as the arithmetic in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

ROOM = 2  # memory that is larger than needed by more than this is not kept: training after an evaluation needs less


class Workspace:
    """Lends tensors. What is given back is lent again; copies and pickles of a workspace are empty."""

    def __init__(self) -> None:
        self._free: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}

    @contextlib.contextmanager
    def lender(self, device: torch.device) -> Iterator[Callable[[int, int, torch.dtype], Tensor]]:
        """A function (rows, columns, dtype) -> a tensor with anything in it. Everything is given back at the end."""
        lent: list[Tensor] = []

        def lend(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
            free = self._free.get((dtype, device), [])
            memory = free.pop() if free else torch.empty(0, dtype=dtype, device=device)
            if not rows * columns <= memory.numel() <= ROOM * rows * columns:
                memory = torch.empty(rows * columns, dtype=dtype, device=device)
            lent.append(memory)
            return memory[: rows * columns].view(rows, columns)

        try:
            yield lend
        finally:
            for memory in lent:
                self._free.setdefault((memory.dtype, device), []).append(memory)

    def __deepcopy__(self, memo: dict) -> Workspace:
        return Workspace()

    def __reduce__(self) -> tuple:
        return (Workspace, ())
