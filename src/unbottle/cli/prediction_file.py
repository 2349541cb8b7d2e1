"""Rows of a jsonl file, and the file they go to with a prediction each."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unbottle.cli.run_folder import write_text


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


def fingerprint(path: Path, column: str) -> tuple[int, str]:
    """How many rows there are and what tells them from any others; refuses the file if a row is wrong."""
    count, made = 0, hashlib.sha256()
    for row in rows_of(path, column):
        count += 1
        made.update(json.dumps(row).encode())
    if not count:
        raise ValueError(f"{path}: the file is empty.")
    return count, made.hexdigest()[:16]


class PredictionFile:
    """Lines of JSON, written as they come. Beside it, in NAME.config.json, is what they depend on.

    Without a path they go to stdout.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any], command: str) -> None:
        self.path, self.settings, self.command = path, settings, command
        self._file: IO[str] = sys.stdout

    def __enter__(self) -> PredictionFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not sys.stdout:
            self._file.close()

    def resume(self, total: int, batch: int) -> int:
        """How many rows are there already, in whole batches; whatever follows them is cut off."""
        if self.path is None:
            return 0
        beside = self.path.with_name(f"{self.path.name}.config.json")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size:
            self._refuse_other(beside)
        write_text(beside, json.dumps(self.settings, indent=1) + "\n")
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        whole = len(lines) - (
            bool(lines) and not lines[-1].endswith(b"\n")
        )  # the last one: killed while it was written
        kept = total if whole >= total else whole - whole % batch
        with self.path.open("ab") as file:
            file.truncate(sum(len(line) for line in lines[:kept]))
        self._file = self.path.open("a", encoding="utf-8", newline="\n")
        return kept

    def add(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()
        if self.path is not None:
            os.fsync(self._file.fileno())

    def _refuse_other(self, beside: Path) -> None:
        try:
            found = json.loads(beside.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise ValueError(
                f"{self.path} exists, and unbottle {self.command} did not write it. Give another --output."
            )
        for name, value in self.settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self.path} holds predictions of other settings: {name} was {found.get(name)!r} and is {value!r} "
                    "now. Give another --output, or the settings of before to go on with it."
                )


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
