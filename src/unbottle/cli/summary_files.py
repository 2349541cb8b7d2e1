"""Predictions out of a file, by themselves or joined with the data they were made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbottle.eval.summary_examples import Columns, Examples


@dataclass(frozen=True, kw_only=True)
class Files:
    """Which files, and how their columns are called."""

    predictions: Path
    data: Path | None
    against: Path | None
    columns: Columns

    def to_dict(self) -> dict[str, Any]:
        paths = {name: path and str(path) for name, path in vars(self).items() if name != "columns"}
        return {**paths, "columns": vars(self.columns)}

    def examples(self, path: Path, needed: Collection[str]) -> tuple[Examples, list[str]]:
        """The examples of a file of predictions, and what is to be said about them."""
        from unbottle.data.rows import read_rows
        from unbottle.eval.summary_examples import Examples

        rows, notes = read_rows(path), list[str]()
        if self.data is not None:
            rows, notes = self._joined(rows, path)
        by_id = ["id"] if self.against is not None else []
        try:
            return Examples.of(rows, columns=self.columns, needed=[*by_id, *sorted(needed)]), notes
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _joined(self, rows: list[dict[str, Any]], path: Path) -> tuple[list[dict[str, Any]], list[str]]:
        """Each prediction with the row of the data that has its id."""
        from unbottle.data.rows import read_rows
        from unbottle.eval.summary_examples import refuse_duplicates

        assert self.data is not None
        data, key = read_rows(self.data), self.columns.id
        for where, those in ((path, rows), (self.data, data)):
            for place, row in enumerate(those, start=1):
                if key not in row:
                    raise ValueError(f"{where}: row {place}: no column {key!r}. There are: {', '.join(row)}.")
        refuse_duplicates((str(row[key]) for row in data), str(self.data))
        by_id = {str(row[key]): row for row in data}
        unknown = [str(row[key]) for row in rows if str(row[key]) not in by_id]
        if unknown:
            raise ValueError(
                f"{path}: {len(unknown)} of {len(rows)} predictions have an id that is not in {self.data}: "
                f"{', '.join(unknown[:3])}."
            )
        found = [{**row, **by_id[str(row[key])], **self._prediction(row)} for row in rows]
        left = len(by_id) - len({str(row[key]) for row in rows})
        notes = [f"{left} of {len(data)} rows of {self.data} have no prediction in {path} and are left out."]
        return found, notes if left else []

    def _prediction(self, row: dict[str, Any]) -> dict[str, Any]:
        """The prediction is the file's, even if the data has a column of that name."""
        name = self.columns.prediction
        return {name: row[name]} if name in row else {}
