"""SummaryFile: rows with a prediction each, on disk as soon as they are there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any


class SummaryFile:
    """Lines of JSON, written as they come. Beside it, in NAME.config.json, is what they depend on.

    Without a path they go to stdout.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self._file: IO[str] = sys.stdout

    def __enter__(self) -> SummaryFile:
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
        unfinished = beside.with_name(f".{beside.name}.unfinished")
        unfinished.write_text(json.dumps(self.settings, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, beside)
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
            raise ValueError(f"{self.path} exists, and unbottle did not write it. Give another --output.")
        for name, value in self.settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self.path} holds predictions of other settings: {name} was {found.get(name)!r} and is {value!r} "
                    "now. Give another --output, or the settings of before to go on with it."
                )
