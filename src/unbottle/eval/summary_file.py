"""SummaryFile: rows with a prediction each, on disk as soon as they are there."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unbottle.disk.full import whole_disk
from unbottle.disk.lock import Lock, own


class SummaryFile:
    """Lines of JSON, written as they come. Beside it, in NAME.config.json, is what they depend on.

    Without a path they go to stdout.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self._file: IO[str] = sys.stdout
        self._lock: Lock | None = None

    def __enter__(self) -> SummaryFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not sys.stdout:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    def resume(self, total: int, batch: int) -> int:
        """How many rows are there already, in whole batches; whatever follows them is cut off."""
        if self.path is None:
            return 0
        beside = self.path.with_name(f"{self.path.name}.config.json")
        self._lock = own(self.path)
        self._file = self.path.open("a", encoding="utf-8", newline="\n")
        if self.path.stat().st_size:
            self._refuse_other(beside)
        unfinished = beside.with_name(f".{beside.name}.unfinished")
        with whole_disk(beside.parent):
            unfinished.write_text(json.dumps(self.settings, indent=1) + "\n", encoding="utf-8")
            os.replace(unfinished, beside)
        lines = self.path.read_bytes().splitlines(keepends=True)
        whole = len(lines) - (
            bool(lines) and not lines[-1].endswith(b"\n")
        )  # the last one: killed while it was written
        kept = total if whole >= total else whole - whole % batch
        self._file.truncate(sum(len(line) for line in lines[:kept]))
        return kept

    def add(self, row: dict[str, Any]) -> None:
        with contextlib.nullcontext() if self.path is None else whole_disk(self.path.parent):
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()
            if self.path is not None:
                os.fsync(self._file.fileno())

    def _refuse_other(self, beside: Path) -> None:
        try:
            found = json.loads(beside.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{self.path} exists, and unbottle did not write it. Give another --output.")
        for name, value in self.settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self.path} holds predictions of other settings: {name} was {found.get(name)!r} and is {value!r} "
                    "now. Give another --output, or the settings of before to go on with it."
                )
