"""locked, lock: one process at a time works in a folder or on a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuses a second process; the lock of one that was killed is gone with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        try:
            lock(file)
        except OSError as error:
            file.seek(0)
            raise ValueError(
                f"{folder}: another process ({file.read().strip() or 'number unknown'}) works in this folder. Wait "
                "for it, or give another output folder."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """A second process waits at this file until the first one is done, or was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        lock(file, wait=True)
        yield


@contextmanager
def free(path: Path) -> Iterator[bool]:
    """Whether this file was nobody's; then it is ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        try:
            lock(file)
        except OSError:
            yield False
        else:
            yield True


def lock(file: IO[Any], *, wait: bool = False) -> None:
    """As long as it is open, this file is ours; an OSError (BlockingIOError) if another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        return
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def own(file: IO[Any], path: Path) -> None:
    """Refuse a file that another process writes to; it is ours until it is closed."""
    try:
        lock(file)
    except OSError as error:
        raise ValueError(
            f"{path}: another process writes to this file. Wait for it, or give another output."
        ) from error
