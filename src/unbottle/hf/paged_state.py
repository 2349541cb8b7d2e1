"""A head whose past lies in the pages of an inference engine: one row of numbers for each token, found by its slot.

The third way to keep what a head remembers, beside `Past` (contiguous) and `StaticPast` (of fixed size); there is no
maths in any of them. Engines put the new tokens of all requests of a step one after the other, and keep what is
remembered of a token in pages that requests share, give back and fill again. Here a contiguous `Past` is read out of
the pages, the head does what it does everywhere, and what it pushed goes back into the pages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F

from unbottle.head import Embedding, Head, Knobs, Past
from unbottle.head.multi_input import Windows

Label = TypeVar("Label", bound=Hashable)

GATHERED = 2**24  # numbers that are read from the pages at once
PREDICTED = 2**25  # logits that are computed at once, or numbers that the tokens of a text take


@dataclass(frozen=True)
class Layout:
    """The columns of a token's row: the bits of its id, its keys, and the layers that Mi reads again later."""

    dtype: torch.dtype
    size: int  # D
    keys: tuple[str, ...]
    layers: int  # how many layers are kept; 0 where Mi reads no earlier position

    @staticmethod
    def of(head: Head, dtype: torch.dtype) -> Layout:
        depth, window = head.config.block
        kept = depth if head.L_h is not None and window > 1 else 0
        return Layout(dtype, head.config.hidden_size, tuple(head.context_keys), kept)

    @property
    def id_columns(self) -> int:
        return _whole(self.dtype).itemsize // self.dtype.itemsize

    @property
    def text_columns(self) -> int:
        """Columns that a prediction reads: ids and keys."""
        return self.id_columns + len(self.keys) * self.size

    @property
    def columns(self) -> int:
        return self.text_columns + self.layers * self.size

    def pack(self, tensors: Mapping[str, Tensor]) -> Shaped[Tensor, "P C"]:
        """Ids and keys of some positions, one row for each."""
        parts = [as_bits(tensors["ids"].flatten(), self.dtype), *(tensors[name].flatten(0, 1) for name in self.keys)]
        return torch.cat([part.to(self.dtype) for part in parts], dim=-1)

    def unpack(self, rows: Shaped[Tensor, "B N C"], real: Bool[Tensor, "B N"]) -> Past:
        """Ids and keys as a past."""
        ids, *keys = rows.split([self.id_columns, *(self.size for _ in self.keys)], -1)
        past = Past()
        past.tensors = {
            "ids": from_bits(ids).where(real, 0),
            "mask": real,
            "readable": real,
            "documents": torch.zeros_like(real, dtype=torch.long),
            **dict(zip(self.keys, keys, strict=True)),
        }
        return past


def as_bits(numbers: Int[Tensor, " P"], dtype: torch.dtype) -> Shaped[Tensor, "P C"]:
    """Whole numbers as the bits of a floating-point type, so that they can travel with states. Copying keeps bits."""
    return numbers.to(_whole(dtype))[:, None].view(dtype)


def from_bits(bits: Shaped[Tensor, "*P C"]) -> Int[Tensor, "*P"]:
    return bits.contiguous().view(_whole(bits.dtype))[..., 0].long()


def _whole(dtype: torch.dtype) -> torch.dtype:
    """The type of whole numbers whose bits fill one or two numbers of a floating-point type."""
    return torch.int64 if dtype == torch.float64 else torch.int32


@dataclass(frozen=True)
class Rows:
    """Requests with equally many consecutive positions to work on."""

    indices: Int[Tensor, "B T"]  # of these positions among the rows that were asked for
    requests: Int[Tensor, " B"]
    ends: Int[Tensor, " B"]  # the position after the last one
    longest: int  # of the ends


@dataclass(frozen=True)
class Batch:
    """The requests of one step: request r has the new tokens starts[r] to starts[r + 1], the last of lengths[r]."""

    starts: Sequence[int]
    lengths: Sequence[int]
    blocks: Int[Tensor, "R M"]  # the pages of each request
    slots: Int[Tensor, " T"]  # where each new token goes

    @property
    def num_tokens(self) -> int:
        return self.starts[-1]

    def request_of(self) -> list[int]:
        """The request of each new token."""
        return [request for request, (start, end) in enumerate(pairwise(self.starts)) for _ in range(end - start)]

    def grouped(self, rows: Sequence[int], most: int, label: Callable[[int], Label]) -> Iterator[tuple[Label, Rows]]:
        """Rows of this step, in groups of requests with the same label whose texts have `most` tokens together."""
        request_of = self.request_of()
        runs: list[list[int]] = []  # of consecutive rows of one request, as indices into `rows`
        for index, row in enumerate(rows):
            if index and row - 1 == rows[index - 1] and request_of[row] == request_of[row - 1]:
                runs[-1].append(index)
            else:
                runs.append([index])
        alike: dict[tuple[int, Label], list[tuple[int, int, list[int]]]] = defaultdict(list)
        for run in runs:
            request = request_of[rows[run[0]]]
            end = self.lengths[request] - self.starts[request + 1] + rows[run[-1]] + 1
            alike[len(run), label(request)].append((end, request, run))
        for (_, name), members in alike.items():
            if len(members) * max(members)[0] > most:
                members.sort()  # texts of about the same length together; otherwise they stay in order
            while members:
                count = len(members)
                while count > 1 and count * members[count - 1][0] > most:
                    count -= 1
                ends, requests, indices = zip(*members[:count], strict=True)
                del members[:count]
                yield name, Rows(self._tensor(indices), self._tensor(requests), self._tensor(ends), longest=max(ends))

    def _tensor(self, numbers: Sequence[int] | Sequence[list[int]]) -> Tensor:
        return torch.tensor(numbers, device=self.blocks.device)


@dataclass(frozen=True)
class Pages:
    """The memory of an engine that holds the rows: pages x tokens of a page x columns."""

    layout: Layout
    memory: Shaped[Tensor, "M P C"]

    def write(self, slots: Int[Tensor, " P"], rows: Shaped[Tensor, "P C"], first: int = 0) -> None:
        """Rows of some tokens, or their columns from a `first` one on."""
        size = self.memory.shape[1]
        slots = slots.long().clamp(min=0)  # what engines have nowhere to put goes to the first page, which nobody reads
        self.memory[..., first : first + rows.shape[1]][slots // size, slots % size] = rows.to(self.memory.dtype)

    def text(self, blocks: Int[Tensor, "B M"], ends: Int[Tensor, " B"], count: int) -> Past:
        """Ids and keys of the last `count` positions before `ends`, with padding to the left of shorter texts."""
        rows, real = self._read(blocks, ends, count, slice(0, self.layout.text_columns))
        return self.layout.unpack(rows, real)

    def layers(self, blocks: Int[Tensor, "B M"], ends: Int[Tensor, " B"], count: int) -> Float[Tensor, "B N L D"]:
        """The layers of these positions; zeros stand for padding."""
        rows, real = self._read(blocks, ends, count, slice(self.layout.text_columns, self.layout.columns))
        layers: Tensor = rows.where(real[..., None], 0).unflatten(-1, (self.layout.layers, self.layout.size))
        return layers

    def _read(
        self, blocks: Int[Tensor, "B M"], ends: Int[Tensor, " B"], count: int, columns: slice
    ) -> tuple[Shaped[Tensor, "B N C"], Bool[Tensor, "B N"]]:
        """Some columns of the last `count` positions, and which of them are no padding."""
        size = self.memory.shape[1]
        positions = ends[:, None] - count + torch.arange(count, device=ends.device)
        real, positions = positions >= 0, positions.clamp(min=0)
        page, place = blocks.gather(1, positions // size).long(), positions % size
        if self.memory.stride(0) != size * self.memory.stride(1):  # there is something else between the pages
            return self.memory[..., columns][page, place], real
        return F.embedding(page * size + place, self.memory.flatten(0, 1)[:, columns]), real


class PagedHead:
    """Runs a head for an engine: `read` when the states of new tokens are there, `scores` for the rows it chooses."""

    def __init__(self, head: Head, dtype: torch.dtype) -> None:
        self.head, self.layout = head, Layout.of(head, dtype)
        self.window = head.config.block[1] if self.layout.layers else 1

    def read(
        self, layers: Float[Tensor, "P L D"], ids: Int[Tensor, " P"], batch: Batch, memory: Tensor
    ) -> Float[Tensor, "P Q"]:
        """q of the new tokens, whose words, keys and states are now remembered."""
        q = layers.new_empty((len(layers), self.head.config.q_size))
        pages, before = Pages(self.layout, memory), self.window - 1
        read = None if self.head.L_h is None else self.head.L_h.read(layers)
        if before and read is not None:  # of all requests first: one may go on from pages that another fills
            pages.write(batch.slots[: len(layers)], read.flatten(1), self.layout.text_columns)
        for _, rows in batch.grouped(range(batch.num_tokens), GATHERED // self.layout.columns, lambda request: None):
            windows, new = None, rows.indices.shape[1]
            if before:
                states = pages.layers(batch.blocks[rows.requests], rows.ends, before + new)
                windows = Windows(states, self.window)
            elif read is not None:
                windows = Windows.single(read[rows.indices])
            here, _ = self.head.widen(layers[:, 0][rows.indices], windows)
            text = {"ids": ids[rows.indices], **self.head.keys(here)}
            pages.write(batch.slots[rows.indices.flatten()], self.layout.pack(text))
            q[rows.indices] = here
        return q

    def scores(
        self,
        q: Float[Tensor, "P Q"],
        numbers: Sequence[int],
        embedding: Embedding,
        batch: Batch,
        memory: Tensor,
        knobs: Callable[[int], Knobs] | None = None,
    ) -> Float[Tensor, "P V"]:
        """Logits, or log-probabilities, of some rows: `numbers` says which new token of the batch each of them is."""
        scores = q.new_empty((0, embedding.vocabulary), dtype=torch.promote_types(q.dtype, torch.float32))
        pages = Pages(self.layout, memory)
        most = max(1, GATHERED // self.layout.text_columns)
        turned = knobs or (lambda request: self.head.knobs)
        for knob, rows in batch.grouped(numbers, most, turned):
            past = pages.text(batch.blocks[rows.requests], rows.ends, rows.longest)
            x = self.head.resume(q[rows.indices], past, embedding, knobs=knob)
            (requests, count), size = rows.indices.shape, max(embedding.vocabulary, 16 * rows.longest)
            step = max(1, PREDICTED // (requests * size))
            for first in range(0, count, step):
                part = slice(first, first + step)
                logits = self.head.logits(x if step >= count else x.part(slice(None), part))[0]
                if logits.shape[:2].numel() == len(q):  # all rows at once, in the order in which they were asked for
                    return logits.flatten(0, 1)
                scores = scores if len(scores) else logits.new_empty((len(q), logits.shape[-1]))
                scores[rows.indices[:, part]] = logits
        return scores
