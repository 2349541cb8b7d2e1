"""Resumable JSONL files: rows are written as they come, and an interrupted run continues exactly where it stopped."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from unbottle.files import Lock, explain_full_disk, output_lock, write_json

JsonObject = dict[str, object]


class ResumableJsonl:
    """A JSONL file with one row per line, in order, and the settings that the rows depend on.

    The settings are the first line of the file. With `sidecar` they are in NAME.config.json beside it instead, and
    every line is a row. A file with other settings is refused, unless they are `earlier`: the same settings as an older
    version wrote them. Only one process may write to a file at a time. Without a path, rows go to stdout.
    """

    def __init__(
        self, path: Path | None, settings: JsonObject, *, sidecar: bool = False, earlier: JsonObject | None = None
    ) -> None:
        self.path, self.settings, self.earlier = path, settings, earlier
        self.sidecar = path.with_name(f"{path.name}.config.json") if sidecar and path is not None else None
        self._lock: Lock | None = None

    def __enter__(self) -> ResumableJsonl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def resume(self, total: int, batch: int) -> list[JsonObject]:
        """The rows of complete batches that the file has already; whatever follows them is removed.

        `total` rows are written in batches of `batch`, of which the last may be smaller.
        """
        if self.path is None:
            return []
        if self._lock is None:
            self._lock = output_lock(self.path)
        content = self.path.read_bytes() if self.path.exists() else b""
        lines = content.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()  # the process was killed while it wrote this line
        if self.sidecar is not None:
            if content:
                self._check_settings(self.sidecar.read_bytes() if self.sidecar.exists() else b"")
            write_json(self.sidecar, self.settings)
        elif lines:
            self._check_settings(lines[0])
        else:
            self._write([self.settings], "w")
            return []
        header = 0 if self.sidecar is not None else 1
        rows = [json.loads(line) for line in lines[header:]]
        kept = total if len(rows) >= total else len(rows) - len(rows) % batch
        if content:
            with self.path.open("r+b") as file:
                file.truncate(sum(len(line) for line in lines[: header + kept]))
        return rows[:kept]

    def append(self, rows: Iterable[JsonObject]) -> None:
        """Write rows behind those that are there; they are on the disk when this returns."""
        self._write(rows, "a")

    def _write(self, rows: Iterable[JsonObject], mode: str) -> None:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        if self.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        with explain_full_disk(self.path.parent), self.path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _check_settings(self, text: bytes) -> None:
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError):
            stored = None
        if not isinstance(stored, dict):
            raise ValueError(f"{self.path} exists, but unbottle did not write it. Choose another output.")
        expected = json.loads(json.dumps(self.settings))
        if stored == expected or (self.earlier is not None and stored == json.loads(json.dumps(self.earlier))):
            return
        changes = [name for name in {**stored, **expected} if stored.get(name) != expected.get(name)]
        listed = ", ".join(f"{name} was {stored.get(name)!r} and is {expected.get(name)!r} now" for name in changes[:3])
        raise ValueError(
            f"{self.path} was written with other settings: {listed}. Choose another output, or use the previous "
            "settings to resume."
        )
