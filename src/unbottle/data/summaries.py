"""Documents and their summaries, from a file, a folder or a hub data set."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from datasets import Dataset, concatenate_datasets

from unbottle.data.sources import NAMED, TABLES, file_type, files_below
from unbottle.data.text import Rows, check_text, hub, quiet_datasets, table

ID, DOCUMENT, SUMMARY = "id", "document", "summary"


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """A source of pairs of a document and a summary.

    `path` is a file (.jsonl, .json, .csv, .parquet, and .gz of the first three), a folder of such files, a name of
    NAMED, or a data set on the hub: owner/name, or owner/name:config. Columns that are not given are those of the named
    data set, else `document` and `summary`. `split` names a split of a hub data set.
    """

    path: str
    text_column: str | None = None
    summary_column: str | None = None
    split: str | None = None


def read_pairs(source: PairSource) -> Dataset:
    """The pairs of a source, in columns `id`, `document` and `summary`.

    Ids are those of a column `id`, as texts, or else the numbers of the rows. Pairs whose document or summary is
    missing or blank are left out; a warning says how many. A summary of one word is kept.
    """
    path = Path(source.path).expanduser()
    with quiet_datasets():
        if path.is_dir():
            parts = [_read(file, source) for file in files_below(path) if file_type(file) in TABLES]
            if not parts:
                raise ValueError(f"{path}: no table in this folder. Known: {', '.join(TABLES)}, and .gz of them.")
        elif path.is_file():
            parts = [_read(path, source)]
        else:
            parts = [_from_hub(source)]
        pairs = parts[0] if len(parts) == 1 else concatenate_datasets(parts)
        return _checked(pairs, source.path)


def _read(path: Path, source: PairSource) -> Dataset:
    if file_type(path) not in TABLES:
        raise ValueError(f"{path}: documents and summaries come in columns. Known: {', '.join(TABLES)}, and .gz.")
    return _columns(table(path), source, str(path))


def _from_hub(source: PairSource) -> Dataset:
    if source.path not in NAMED:
        return _columns(hub(source.path, source.split, names=NAMED), source, source.path)
    named = NAMED[source.path]
    chosen = replace(
        source,
        text_column=source.text_column or named.text_column,
        summary_column=source.summary_column or named.summary_column,
    )
    return _columns(hub(named.path, source.split, names=NAMED, revision=named.revision), chosen, named.path)


def _columns(rows: Rows, source: PairSource, where: str) -> Dataset:
    """The columns of documents and summaries under these names, and the ids."""
    rows = cast(Dataset, rows)
    wanted = {source.text_column or DOCUMENT: DOCUMENT, source.summary_column or SUMMARY: SUMMARY}
    if len(wanted) < 2:
        raise ValueError(f"{where}: column {next(iter(wanted))!r} cannot be document and summary at once.")
    for column in wanted:
        check_text(rows, column, where)
    texts = {name: [text or "" for text in rows[column][:]] for column, name in wanted.items()}
    ids: list[str | None] = [None] * len(rows)
    if ID in rows.features and ID not in wanted:
        ids = [None if value is None else str(value) for value in rows[ID][:]]
    return Dataset.from_dict({ID: ids, **texts})


def _checked(pairs: Dataset, where: str) -> Dataset:
    columns = {name: pairs[name][:] for name in (ID, DOCUMENT, SUMMARY)}
    ids = columns[ID] = [str(row) if value is None else value for row, value in enumerate(columns[ID])]
    first: dict[str, int] = {}
    for row, value in enumerate(ids):
        if first.setdefault(value, row) != row:
            raise ValueError(
                f"{where}: rows {first[value] + 1} and {row + 1} have the same id {value!r}. Ids tell pairs apart: "
                "make them differ, or take the column away."
            )
    texts = zip(columns[DOCUMENT], columns[SUMMARY], strict=True)
    complete = [row for row, (text, summary) in enumerate(texts) if text.strip() and summary.strip()]
    if not complete:
        raise ValueError(f"{where}: there is no pair of a document and a summary in it.")
    if missing := len(pairs) - len(complete):
        what = "pair" if missing == 1 else "pairs"
        warnings.warn(f"{where}: {missing} {what} without a document or a summary left out.", stacklevel=3)
    return Dataset.from_dict({name: [values[row] for row in complete] for name, values in columns.items()})
