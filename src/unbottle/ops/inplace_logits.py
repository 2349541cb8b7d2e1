"""InPlaceLogits: the fast implementation of `Logits`, one buffer that becomes its own gradient.

`Workspace` lends large buffers that are used again, because fresh memory costs as much as the arithmetic in it. `Tape`
gathers gradients while the forward pass still runs, one small piece of the graph after the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unbottle.ops import triton
from unbottle.ops.device import at_once, is_accelerator
from unbottle.ops.logits import Words, Write, highest
from unbottle.ops.numerics import without_gradients

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
                with torch.inference_mode(False):  # or training could not use what an evaluation gave back
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
        gradients = torch.autograd.grad(output, self._leaves, gradient, allow_unused=True)
        for leaf, part in zip(self._leaves, gradients, strict=True):
            if part is not None:
                self.add(leaf, part)

    def add(self, leaf: Tensor, part: Tensor) -> None:
        before = self._gradients.get(id(leaf))
        self._gradients[id(leaf)] = part if before is None else before + part

    def gradient(self, leaf: Tensor) -> Tensor | None:
        """What was pulled to this leaf; None if nothing reached it."""
        return self._gradients.get(id(leaf))


READ = 16  # rows whose log-probabilities are held at once while log Z is read
SAMPLE = 64  # columns that are looked at to learn what normalisation subtracted


class InPlaceLogits:
    """Logits as partitions see them, each step written over the last.

    Nothing of the size of the vocabulary is kept for a backward pass: what is read becomes a leaf of the tape, what
    happened is remembered in `_events`, and `gradient` undoes it in the same memory, newest first. The gradient of
    log Z is the softmax, so the buffer is its own gradient up to one factor per position.
    """

    def __init__(self, buffer: Float[Tensor, "P C"], size: int, positions: int, tape: Tape) -> None:
        assert buffer.shape[1] > size, "one column more: the target of all that is not present"
        self._grid = buffer.view(-1, positions, buffer.shape[1])
        self._size, self._tape = size, tape
        self._log_Z: Tensor | None = None  # once the logits are normalised
        self._subtracted: Tensor | None = None  # once the buffer holds log-probabilities: log Z
        self._read: Tensor | None = None  # log Z of logits that are still logits
        self._events: list[Callable[[Tensor, Tensor], None]] = []
        self.written: list[Write] = []

    @property
    def values(self) -> Float[Tensor, "B T V"]:
        assert self._log_Z is None, "what is normalised holds log-probabilities, no logits"
        return self._values

    @property
    def _values(self) -> Float[Tensor, "B T V"]:
        return self._grid[..., : self._size]

    @without_gradients
    def at(self, words: Words) -> Float[Tensor, "B T S"]:
        values = self._grid.gather(-1, words.expanded(self._grid.shape[1]))
        leaf = self._tape.leaf(values if self._subtracted is None else values + self._subtracted[..., None])

        def undo(scale: Tensor, inverse: Tensor) -> None:
            if (gradient := self._tape.gradient(leaf)) is not None:
                self._grid.scatter_add_(-1, words.target(self._size).expand_as(leaf), gradient * inverse)

        self._remember(undo)
        return leaf

    @without_gradients
    def top(self, k: int) -> Words:
        return highest(self._whole_rows().view(self._grid.shape), min(k, self._size))

    @without_gradients
    def overwrite(self, write: Write) -> InPlaceLogits:
        assert self._log_Z is None, "what is normalised is finished"
        target = write.words.target(self._size).expand_as(write.scores)
        self._grid.scatter_(-1, target, write.scores.detach().to(self._grid.dtype))
        self.written.append(write)
        self._read = None

        def undo(scale: Tensor, inverse: Tensor) -> None:
            gradient = self._grid.gather(-1, target) * scale
            if not write.words.complete:
                gradient = gradient.where(write.words.present, 0)
            self._grid.scatter_(-1, target, 0)
            self._tape.pull(write.scores, gradient.to(write.scores.dtype))

        self._remember(undo)
        return self

    @without_gradients
    def mean(self) -> Float[Tensor, "B T"]:
        mean = self._values.mean(-1)
        leaf = self._tape.leaf(mean if self._subtracted is None else mean + self._subtracted)

        def undo(scale: Tensor, inverse: Tensor) -> None:
            if (gradient := self._tape.gradient(leaf)) is not None:
                self._values.add_(gradient[..., None] * inverse / self._size)

        self._remember(undo)
        return leaf

    @without_gradients
    def logsumexp(self) -> Float[Tensor, "B T"]:
        """log Z. Where gradients are recorded, the buffer holds log-probabilities from now on: one pass over it."""
        if self._log_Z is None and not self._tape.records:
            return self._read_log_Z()
        if self._log_Z is None:
            self._normalise()
        assert self._log_Z is not None
        return self._log_Z

    def _normalise(self) -> None:
        if triton.implementation(self._grid) is not None:  # the logits stay until they become their gradient
            self._log_Z = self._tape.leaf(self._read_log_Z())
            return
        self._log_Z = self._tape.leaf(self._log_softmax())
        self._subtracted = self._log_Z

    def _read_log_Z(self) -> Float[Tensor, "B T"]:
        """log Z of logits that stay as they are."""
        if self._read is None:
            if (fast := triton.implementation(self._grid)) is not None:
                self._read = fast.logsumexp(self._values.flatten(0, 1)).view(self._grid.shape[:2])
            else:
                rows = at_once(READ, self._grid.device)
                self._read = self._log_softmax(self._grid.new_empty((rows, self._grid.shape[-1])))
        return self._read

    def _log_softmax(self, scratch: Float[Tensor, "R C"] | None = None) -> Float[Tensor, "B T"]:
        """log Z: what is subtracted from logits to get log-probabilities.

        These are written over the logits or, as many rows at a time as it has, to `scratch`, which fits into a cache.
        """
        rows = self._whole_rows()
        step = len(rows) if scratch is None else len(scratch)
        before, column = self._finite_column()
        after = []
        for part, chosen in zip(rows.split(step), column.split(step), strict=True):
            out = part if scratch is None else scratch[: len(part)]
            after.append(torch.log_softmax(part, -1, out=out).gather(-1, chosen))
        return (before - torch.cat(after)).view(self._grid.shape[:2])

    def _whole_rows(self) -> Float[Tensor, "P C"]:
        """Logits with the columns to spare, which count for nothing now: reading whole rows is faster."""
        self._grid[..., self._size :].fill_(-torch.inf)
        return self._grid.flatten(0, 1)

    def _finite_column(self) -> tuple[Float[Tensor, "P 1"], Int[Tensor, "P 1"]]:
        """A logit of each position that is not -inf, and its column: where to learn what normalisation subtracts."""
        values = self._values.flatten(0, 1)
        if not is_accelerator(values.device):
            step = max(1, self._size // SAMPLE)
            before, column = values[:, ::step].max(-1, keepdim=True)
            if before.isfinite().all():
                return before, column * step
        best: tuple[Tensor, Tensor] = values.max(-1, keepdim=True)
        return best

    @without_gradients
    def log_softmax(self) -> Float[Tensor, "B T V"]:
        """Log-probabilities, in place of the logits."""
        if self._log_Z is None:
            self._normalise()
        if self._subtracted is None:
            assert self._log_Z is not None
            self._values.sub_(self._log_Z[..., None])
            self._subtracted = self._log_Z
        return self._values

    def _remember(self, undo: Callable[[Tensor, Tensor], None]) -> None:
        """Without a gradient nothing will be undone, and what would be needed for that is not kept."""
        if self._tape.records:
            self._events.append(undo)

    @without_gradients
    def gradient(self) -> tuple[Float[Tensor, "P V"], Float[Tensor, "P 1"]]:
        """Gradient of what the vocabulary product gave, and the factor of each position that it lacks.

        To be called when the gradients of everything read are on the tape. A position without any gradient of log Z
        has no loss.
        """
        assert self._log_Z is not None
        gradient = self._tape.gradient(self._log_Z)
        scale = torch.zeros_like(self._log_Z)[..., None] if gradient is None else gradient[..., None]
        counts = scale.abs() >= torch.finfo(scale.dtype).tiny  # a softmax without weight in a mixture has no inverse
        scale, inverse = scale.where(counts, 0), (1 / scale).where(counts, 0)
        fast = triton.implementation(self._grid)
        if fast is not None and self._subtracted is None:
            fast.softmax_(self._values.flatten(0, 1), self._log_Z.flatten())
        else:
            self._grid.exp_()
        while self._events:
            self._events.pop()(scale, inverse)
        return self._values.flatten(0, 1), scale.flatten(0, 1)
