"""Files on disk: atomic writes, JSON, files of rows that are resumed, locks, and one clear error for a full disk.

The locks are filelock's: those of the operating system (flock, LockFileEx), which end with their process, or lock files
where a network file system has none.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import BaseFileLock as Lock
from filelock import FileLock, Timeout
from safetensors import SafetensorError

Json = dict[str, Any]  # an object of a JSON file

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_MESSAGES = (  # of safetensors, and of torch.save in its various forms
    "No space left on device",
    "os error 28",
    "Disk quota exceeded",
    "failed writing file",
    "file write failed",
    "unexpected pos",
    "iostream error",
)
WINDOWS = os.name == "nt"
LOCK = ".lock"
OWNER = ".lock-owner"  # a file of its own: on Windows, another process cannot read a locked file


@contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Turn whatever a library raises on a full disk into one OSError that says what to do."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if getattr(error, "errno", None) not in FULL and not any(text in str(error) for text in FULL_MESSAGES):
            raise
        full = OSError(
            f"the disk of {folder} is full. Files written before are complete: free some space and rerun the same "
            "command to resume."
        )
        full.errno = errno.ENOSPC  # given to the constructor, it would be printed before the message
        raise full from error


def writable_folder(folder: Path) -> None:
    """Create a folder, and raise OSError if files cannot be created in it: call this before long work."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".writable"
    probe.touch()
    probe.unlink(missing_ok=True)  # another process may check at the same time


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: an interrupted or failed write leaves the previous content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with explain_full_disk(path.parent):
            temporary.write_text(text, encoding="utf-8")
            replace_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, data: object) -> None:
    """Write JSON atomically, see `write_text`."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def read_json(path: Path, remedy: str = "it was edited. Use another output folder.") -> Any:
    """The content of a JSON file. `remedy` ends the error message if it is not valid JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): {remedy}") from error


def replace_file(temporary: Path, final: Path) -> None:
    """Rename a finished temporary file, after its content has reached the disk."""
    _sync(temporary)
    os.replace(temporary, final)


def replace_folder(temporary: Path, final: Path) -> None:
    """Rename a finished temporary folder, after its files have reached the disk; an existing one is replaced."""
    for path in temporary.rglob("*"):
        if path.is_file():
            _sync(path)
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(final, old)
    os.replace(temporary, final)
    shutil.rmtree(old, ignore_errors=True)
    _sync(final.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    if WINDOWS and path.is_dir():  # which cannot be opened there
        return
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)  # Windows writes out only what is open for writing
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; ValueError if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder / OWNER
    with try_lock(folder / LOCK) as acquired:
        if not acquired:
            raise ValueError(
                f"{folder} is in use by process {_owner(owner)}. Wait until it is finished, or give another output "
                "folder."
            )
        try:
            owner.write_text(f"{os.getpid()}\n", encoding="utf-8")
            yield
        finally:
            owner.unlink(missing_ok=True)


def _owner(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "(number unknown)"
    except OSError:  # it has just started, or just ended
        return "(number unknown)"


def file_lock(path: Path) -> Lock:
    """A lock file to hold in a `with` statement, which waits for the process that holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock file if nobody else does; whether it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


class ResumableJsonl:
    """A JSONL file with one row per line, in order, and the settings that the rows depend on.

    The settings are the first line of the file. With `sidecar` they are in NAME.config.json beside it instead, and
    every line is a row. A file with other settings is refused, unless they are `earlier`: the same settings as an older
    version wrote them. Only one process may write to a file at a time. Without a path, rows go to stdout.
    """

    def __init__(
        self, path: Path | None, settings: Json, *, sidecar: bool = False, earlier: Json | None = None
    ) -> None:
        self.path, self.settings, self.earlier = path, settings, earlier
        self.sidecar = path.with_name(f"{path.name}.config.json") if sidecar and path is not None else None
        self._lock: Lock | None = None

    def __enter__(self) -> ResumableJsonl:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # a file beside it: on Windows, a locked file cannot be read
            self._lock = FileLock(self.path.with_name(f".{self.path.name}{LOCK}"), thread_local=False)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise ValueError(
                    f"{self.path}: another process is writing to this file. Wait until it is finished, or give another "
                    "output."
                ) from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def resume(self, total: int, batch: int) -> list[Json]:
        """The rows of complete batches that the file has already; whatever follows them is removed.

        `total` rows are written in batches of `batch`, of which the last may be smaller.
        """
        if self.path is None:
            return []
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

    def append(self, rows: Iterable[Json]) -> None:
        """Write rows behind those that are there; they are on the disk when this returns."""
        self._write(rows, "a")

    def _write(self, rows: Iterable[Json], mode: str) -> None:
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
