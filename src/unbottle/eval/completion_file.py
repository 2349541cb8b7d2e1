"""Completions on disk: a line of settings, then a line for each continuation, in the order of the work."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from unbottle.disk.full import whole_disk
from unbottle.disk.lock import Lock, own

NUMBER = "continuations"  # in the settings: how many lines follow


class CompletionFile:
    """A file that grows batch by batch. A run that was killed goes on with the first batch that is not whole.

    A second process that would write to it is refused. `earlier` are the same settings as an earlier version wrote
    them: a file that begins with them is continued as it is.
    """

    def __init__(self, path: Path, settings: dict[str, Any], earlier: dict[str, Any] | None = None) -> None:
        self.path, self.settings, self.earlier = path, settings, earlier
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock: Lock | None = None

    def __enter__(self) -> CompletionFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def resume(self, batches: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Rows of whole batches that are there already; whatever follows them is cut off."""
        if self._lock is None:
            self._lock = own(self.path)
        if not self.path.exists() or not self.path.stat().st_size:
            self._write([self.settings], "w")
            return []
        lines = self.path.read_bytes().splitlines(keepends=True)
        if not lines[-1].endswith(b"\n"):
            lines.pop()  # killed while it was written
        if not lines:
            self._write([self.settings], "w")
            return []
        settings, *rows = (json.loads(line) for line in lines)
        if settings not in [
            json.loads(json.dumps(known)) for known in (self.settings, self.earlier) if known is not None
        ]:
            raise ValueError(
                f"{self.path} belongs to a run with other settings: {_difference(settings, self.settings)}. "
                "Take another folder, or delete the file."
            )
        kept = 0
        for batch in batches:
            if kept + len(batch) > len(rows):
                break
            kept += len(batch)
        with self.path.open("r+b") as file:
            file.truncate(sum(len(line) for line in lines[: kept + 1]))
        return rows[:kept]

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        self._write(rows, "a")

    def _write(self, rows: Sequence[dict[str, Any]], mode: str) -> None:
        with whole_disk(self.path.parent), self.path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())


def read_completions(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows of a file of completions."""
    try:
        # bytes: a text may hold characters that end a line for str.splitlines, and only for it
        settings, *rows = (json.loads(line) for line in path.read_bytes().splitlines())
        whole = all(isinstance(row["continuation"], str) for row in rows) and len(rows) == settings[NUMBER]
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError(
            f"{path}: not a whole file of completions, as unbottle eval completion --output DIR writes it. A run that "
            "was interrupted goes on if it is started again as before."
        )
    return settings, rows


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    names = [name for name in {**found, **wanted} if found.get(name) != json.loads(json.dumps(wanted.get(name)))]
    return ", ".join(f"{name} {found.get(name)} there and {wanted.get(name)} here" for name in names[:3])
