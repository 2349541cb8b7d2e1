"""Rows of a table, with all their columns: jsonl, csv and parquet."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

ENDINGS = (".jsonl", ".csv", ".parquet")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a .jsonl or .csv file, or .gz of them, or a .parquet file. Lines without anything are left out."""
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    if ending not in ENDINGS:
        raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(ENDINGS)}, and .jsonl.gz, .csv.gz.")
    rows = {".jsonl": _json_lines, ".csv": _csv, ".parquet": _parquet}[ending](path)
    if not rows:
        raise ValueError(f"{path}: there is no row in it.")
    return rows


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}). Convert it first: iconv -t utf-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error


def _json_lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    # split, not splitlines: a text may hold characters that end a line for str.splitlines, and only for it
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error}). Each line is one JSON object.") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is no JSON object with columns.")
        rows.append(row)
    return rows


def _csv(path: Path) -> list[dict[str, Any]]:
    text = _text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a document may be long
    try:
        rows = [*csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)]
    except csv.Error as error:
        raise ValueError(f"{path}: not a whole csv file ({error}).") from error
    for number, row in enumerate(rows, start=1):
        if "" in row or None in row.values():
            raise ValueError(f"{path}, row {number}: not as many cells as the first line has columns.")
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    from pyarrow import ArrowException, parquet

    try:
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise ValueError(f"{path}: not a parquet file ({error}).") from error
    return found
