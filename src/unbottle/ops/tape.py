"""Tape: gradients computed while the forward pass still runs, one small piece of the graph after the other."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Tape:
    """Leaves and what their gradients amount to so far. A tape that does not record makes no leaves."""

    def __init__(self, *, records: bool) -> None:
        self.records = records
        self._leaves: list[Tensor] = []
        self._gradients: dict[int, Tensor] = {}

    def leaf(self, value: Tensor, *, wanted: bool = True) -> Tensor:
        """The same numbers at the start of a graph of their own; no leaf if its gradient is not wanted."""
        value = value.detach()
        if self.records and wanted:
            self._leaves.append(value.requires_grad_())
        return value

    def watch(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Parameters are leaves already; their gradients are gathered here, not in `.grad`."""
        wanted = [parameter for parameter in parameters if self.records and parameter.requires_grad]
        self._leaves += wanted
        return wanted

    def pull(self, output: Tensor, gradient: Tensor | None = None) -> None:
        """Go back from one output to the leaves it was made of."""
        if not output.requires_grad:
            return
        found = torch.autograd.grad(output, self._leaves, gradient, allow_unused=True)
        for leaf, part in zip(self._leaves, found, strict=True):
            if part is not None:
                self.add(leaf, part)

    def add(self, leaf: Tensor, part: Tensor) -> None:
        before = self._gradients.get(id(leaf))
        self._gradients[id(leaf)] = part if before is None else before + part

    def gradient(self, leaf: Tensor) -> Tensor | None:
        """What was pulled to this leaf; None if nothing reached it."""
        return self._gradients.get(id(leaf))
