"""Summaries that a model writes on the spot, for `unbottle eval summaries --model`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbottle.eval.decoding import Decoding
    from unbottle.eval.summary_examples import Columns

NAME = "predictions.jsonl"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A file of documents, how its columns are called, and which of them the metrics need."""

    path: Path
    columns: Columns
    needed: Collection[str]

    def read(self) -> list[dict[str, Any]]:
        """What would be wrong with them later is said now, before a model has worked for hours."""
        from unbottle.data.rows import read_rows
        from unbottle.eval.summary_examples import Examples

        rows, needed = read_rows(self.path), sorted({"document", *self.needed})
        try:
            Examples.of([row | {self.columns.prediction: ""} for row in rows], columns=self.columns, needed=needed)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
        return rows


def written_summaries(model: str, rows: Rows, decoding: Decoding, folder: Path) -> None:
    """NAME in the folder: the rows with a prediction each. A file that is not whole is continued."""
    from unbottle.cli.dropped import Dropped
    from unbottle.cli.phases import one_line_warnings
    from unbottle.cli.progress import progress
    from unbottle.cli.summarize import loaded
    from unbottle.eval.write_summaries import Documents, write_summaries

    documents = Documents.of_list(rows.read(), rows.columns.document)
    made = Dropped("document", "summary", "end")
    with one_line_warnings():
        network, tokenizer = loaded(model)
        with progress() as report:
            try:
                write_summaries(
                    network, tokenizer, documents, decoding, folder / NAME,
                    prediction=rows.columns.prediction, report=report, watch=made.watch,
                )  # fmt: skip
            finally:
                made.tell()
