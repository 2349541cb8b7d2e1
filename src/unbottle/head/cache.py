"""Past: the state of a head while decoding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F


class Past:
    """The head's state while decoding: one tensor of B x N x ... for each thing it remembers.

    Training starts from no past, decoding from what earlier calls left; nothing else differs. Ids, masks and documents
    are kept for the words of the context, `layers` for the window of Mi, and each partition's keys under their name.
    `source` is what was made of the encoder input, which no later position changes.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.source: dict[str, Tensor] = {}
        self._room: dict[str, Tensor] = {}  # the memory behind `tensors`, with space for more positions

    def __len__(self) -> int:
        return self.tensors["ids"].shape[1] if self.tensors else 0

    @property
    def known_length(self) -> int | None:
        """The number of positions, if the host knows it: a length that lives on a device is not looked at."""
        return len(self)

    def advance(self, count: int, device: torch.device) -> Int[Tensor, " T"]:
        """Begin the next `count` positions; says where they stand. What is pushed next belongs to them."""
        return torch.arange(len(self), len(self) + count, device=device)

    @property
    def batch_size(self) -> int | None:
        return self.tensors["ids"].shape[0] if self.tensors else None

    def push(self, **new: Tensor) -> dict[str, Tensor]:
        """Remember these positions too; returns everything remembered under the same names."""
        for name, tensor in new.items():
            before = self.tensors.get(name)
            if before is None:
                self.tensors[name] = tensor
            elif torch.is_grad_enabled() or torch.compiler.is_compiling():
                self.tensors[name] = torch.cat([before, tensor], dim=1)
            else:
                self.tensors[name] = self._append(name, before, tensor)
        return {name: self.tensors[name] for name in new}

    def _append(self, name: str, before: Tensor, tensor: Tensor) -> Tensor:
        """As `cat`, but what was there is only copied when the room is used up: it doubles then."""
        length = before.shape[1] + tensor.shape[1]
        room = self._room.get(name)
        fits = room is not None and room.data_ptr() == before.data_ptr() and room.shape[1] >= length
        if room is None or not fits or (room.is_inference() and not torch.is_inference_mode_enabled()):
            room = before.new_empty((len(before), 2 * length, *before.shape[2:]))
            room[:, : before.shape[1]] = before
            self._room[name] = room
        room[:, before.shape[1] : length] = tensor
        return room[:, :length]

    def latest(self, name: str) -> Tensor:
        """What is remembered of the last position, B x 1 x ..."""
        return self.tensors[name][:, -1:]

    def recent(self, name: str, count: int) -> Tensor:
        """What is remembered of the last `count` positions; zeros stand for those before the first."""
        last = self.tensors[name][:, -count:]
        if missing := count - last.shape[1]:
            return F.pad(last, (*(0, 0) * (last.ndim - 2), missing, 0))
        return last

    def reorder(self, rows: Int[Tensor, " R"]) -> None:
        """Row r of the batch becomes what row `rows[r]` was: beams move, rows are selected or repeated."""
        self._each(lambda tensor: tensor.index_select(0, rows.to(tensor.device)))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep some rows of the batch."""
        self.reorder(rows)

    def repeat(self, times: int) -> None:
        """Each row of the batch `times` times in a row."""
        self._each(lambda tensor: tensor.repeat_interleave(times, dim=0))

    def crop(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        if not 0 <= length <= len(self):
            raise ValueError(f"crop to {length} positions: this past has {len(self)}; give 0 to {len(self)}.")
        self.tensors = {name: tensor[:, :length] for name, tensor in self.tensors.items()} if length else {}
        if not length:
            self.source = {}

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        self.tensors = {name: change(tensor) for name, tensor in self.tensors.items()}
        self.source = {name: change(tensor) for name, tensor in self.source.items()}
