"""Documents of a jsonl file, to be summarized."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbottle.eval.write_summaries import Documents


def documents_of(path: Path, column: str) -> Documents:
    """All of the file is read and refused if a row is wrong; its texts are not kept."""
    from unbottle.eval.write_summaries import Documents

    found = Documents.of(partial(rows_of, path, column), column)
    if not found.total:
        raise ValueError(f"{path}: the file is empty.")
    return found


def rows_of(path: Path, column: str, start: int = 0) -> Iterator[dict[str, Any]]:
    """Each line with something on it, from the row `start` on. A document may be null, which is empty."""
    found = -1
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        found += 1
        if found < start:
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not valid JSON ({error}).") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: expected an object, as in {{{column!r}: ...}}.")
        if column not in row:
            raise ValueError(
                f"{path}, line {number}: no field {column!r}. There are: {', '.join(row)}. Name it with --text-column."
            )
        if not isinstance(row[column], (str, type(None))):
            raise ValueError(f"{path}, line {number}: {column!r} is {type(row[column]).__name__}, not a text.")
        yield row


def _lines(path: Path) -> Iterator[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="\n") as file
        ):
            yield from file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}).") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error
