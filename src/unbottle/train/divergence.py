"""Divergence detection: a loss, gradient or weight that is not finite stops a training, and the error names the batch.

`number_rows` adds to each row its index in the data, so that the batch can be found again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from unbottle.files import write_json
from unbottle.train.checkpoints import newest
from unbottle.train.distributed import Row, WrappedRows, gather_sharded, is_first

ROWS = "rows"  # key of a row: its index in the data
FILE = "bad-batch.json"
EXPLODED = 10.0  # times the loss of a uniform prediction, or times the first loss, if that is larger
SHOWN = 8  # rows that an error message names; the file has all


def number_rows(data: Dataset[Row]) -> Dataset[Row]:
    """The same data, with the index of each row."""
    if isinstance(data, Sized):
        return NumberedRows(data)
    assert isinstance(data, Iterable)
    return NumberedStream(data)


class NumberedRows(WrappedRows):
    def __getitem__(self, index: int) -> Row:
        return {**self.rows[index], ROWS: torch.tensor([index])}


class NumberedStream(IterableDataset[Row]):
    def __init__(self, data: Iterable[Row]) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Row]:
        for index, row in enumerate(self.data):
            yield {**row, ROWS: torch.tensor([index])}


class DivergenceError(ValueError):
    """Loss, gradient or weights are not finite, or the loss has exploded."""


class DivergenceMonitor:
    """Checks every loss and every gradient. The batches of a bad step are written to `bad-batch.json` in `folder`."""

    def __init__(self, folder: Path, vocabulary_size: int, learning_rate: float) -> None:
        self.folder, self.learning_rate = folder, learning_rate
        self.limit = EXPLODED * math.log(max(vocabulary_size, 2))
        self.step = 0
        self.batches: list[tuple[list[int], Row]] = []  # of this step: indices of rows, and inputs
        self.first = True

    def check_batch(self, step: int, inputs: Row) -> None:
        """Remember the next batch of a step, and remove the row numbers, which models do not know."""
        if step != self.step:
            self.step, self.batches = step, []
        rows = inputs.pop(ROWS, None)
        self.batches.append(([] if rows is None else rows.flatten().tolist(), inputs))

    def check_loss(self, value: float) -> None:
        """Check the loss of the last batch."""
        if self.first and math.isfinite(value):
            self.limit, self.first = max(self.limit, EXPLODED * value), False
        if not value <= self.limit:
            self.stop(f"loss exploded ({value:g})" if math.isfinite(value) else f"loss is {_name(value)}", 1)

    def check_gradient(self, norm: Tensor | float | None) -> None:
        """Check the gradient of a step. DeepSpeed does not tell its norm."""
        if norm is None:
            return
        value = float(gather_sharded(norm) if isinstance(norm, Tensor) else norm)
        if not math.isfinite(value):
            self.stop(f"gradient norm is {_name(value)}")

    def check_weights(self, parameters: Mapping[str, Tensor]) -> None:
        """Check what is about to be written to a checkpoint."""
        for name, value in parameters.items():
            if not value.isfinite().all():
                self.stop(f"weights of {name} are not finite")

    def stop(self, problem: str, last: int = 0) -> None:
        """Write the batches of this step, or the `last` of them, to a file, and raise an error."""
        batches = self.batches[-last:]
        file = self.folder / FILE
        if is_first():
            shown = [
                {"rows": rows, **{name: inputs[name].tolist() for name in ("input_ids", "labels")}}
                for rows, inputs in batches
            ]
            write_json(file, {"step": self.step, "problem": problem, "batches": shown})
        indices = [index for rows, _ in batches for index in rows]
        names = ", ".join(map(str, indices[:SHOWN])) + (", ..." if len(indices) > SHOWN else "")
        checkpoint = newest(self.folder / "checkpoints")
        kept = "there is no checkpoint yet" if checkpoint is None else f"{checkpoint.name} is kept"
        raise DivergenceError(
            f"{problem} at step {self.step}, on rows {names} of the data (see {file}). Inspect these rows; or lower "
            f"learning_rate ({self.learning_rate:g}), or set max_grad_norm and warmup_steps, in another output folder; "
            f"{kept}."
        )


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:g}"
