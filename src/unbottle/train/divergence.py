"""numbered: windows that know which they are, so that a batch that breaks a training can be named.

Watch: a training that breaks stops at once, and says at which step and on which batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from unbottle.files import write_json
from unbottle.train.checkpoints import newest
from unbottle.train.distributed import is_first

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


FILE = "bad-batch.json"
EXPLODED = 10.0  # times the loss of guessing among all words, or times the first loss, if that is larger
SHOWN = 8  # rows that a sentence names; all are in the file


class BrokenTrainingError(ValueError):
    """The loss, the gradient or the weights are no use any more."""


class Watch:
    """Looks at every loss and every gradient. What led to a bad one is written to FILE in the folder of the run."""

    def __init__(self, folder: Path, vocabulary: int, lr: float) -> None:
        self.folder, self.lr = folder, lr
        self.limit = EXPLODED * math.log(max(vocabulary, 2))
        self.step = 0
        self.batches: list[dict[str, Any]] = []  # of this step
        self.first = True

    def batch(self, step: int, inputs: dict[str, Any]) -> None:
        """The next batch, of this step; its rows are taken out, for models do not know them."""
        if step != self.step:
            self.step, self.batches = step, []
        rows = inputs.pop(ROWS, None)
        self.batches.append({"rows": [] if rows is None else rows.flatten().tolist(), "inputs": inputs})

    def loss(self, value: float) -> None:
        """Of the last batch."""
        if self.first and math.isfinite(value):
            self.limit, self.first = max(self.limit, EXPLODED * value), False
        if not value <= self.limit:
            how = "exploded" if math.isfinite(value) else "is no number"
            self.stop(f"the loss {how} ({value:g})", self.batches[-1:])

    def gradient(self, norm: Any) -> None:
        """Of all batches of this step together."""
        if norm is None:  # DeepSpeed keeps it to itself
            return
        value = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if not math.isfinite(value):
            self.stop(f"the norm of the gradient is {value:g}", self.batches)

    def weights(self, parameters: dict[str, Any]) -> None:
        """What is about to be written to a checkpoint."""
        for name, value in parameters.items():
            if not value.isfinite().all():
                self.stop(f"the weights of {name} are no numbers any more", self.batches)

    def stop(self, problem: str, batches: list[dict[str, Any]]) -> None:
        file = self.folder / FILE
        shown = [
            {"rows": each["rows"], **{name: each["inputs"][name].tolist() for name in ("input_ids", "labels")}}
            for each in batches
        ]
        if is_first():
            write_json(file, {"step": self.step, "problem": problem, "batches": shown})
        rows = [row for each in batches for row in each["rows"]]
        named = ", ".join(map(str, rows[:SHOWN])) + (", ..." if len(rows) > SHOWN else "")
        kept = newest(self.folder / "checkpoints")
        before = "there is no checkpoint yet" if kept is None else f"{kept.name} from before is kept"
        raise BrokenTrainingError(
            f"{problem} at step {self.step}, on rows {named} of the data ({file} holds them). Look at these rows; or "
            f"lower lr ({self.lr:g}), or set clip and warmup_steps, in another output folder; {before}."
        )
