"""locked, waiting, free, own: one process at a time works in a folder or on a file, on every file system.

The locks are those of filelock: the operating system's (flock, LockFileEx), which end with their process, or, where a
network file system has none, files that exist as long as the lock is held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock as Lock
from filelock import FileLock, Timeout

__all__ = ["LOCK", "OWNER", "Lock", "free", "locked", "own", "waiting"]

LOCK = ".lock"
OWNER = ".lock-owner"  # beside it: Windows does not let another process read a file that is locked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuses a second process; the lock of one that was killed is gone with it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock, owner = FileLock(folder / LOCK), folder / OWNER
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(
            f"{folder} is in use by process {_read(owner) or '(number unknown)'}. Wait until it is finished, or give "
            "another output folder."
        ) from error
    try:
        owner.write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """A second process waits at this file until the first one is done, or was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


@contextmanager
def free(path: Path) -> Iterator[bool]:
    """Whether this file was nobody's; then it is ours."""
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


def own(path: Path) -> Lock:
    """Refuse a file that another process writes to; it is ours until the lock is released.

    The lock is a file beside it: on Windows, nobody could read the file itself, not even this process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}{LOCK}"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(
            f"{path}: another process writes to this file. Wait for it, or give another output."
        ) from error
    return lock


def _read(owner: Path) -> str:
    try:
        return owner.read_text(encoding="utf-8").strip()
    except OSError:  # it has just begun, or just ended
        return ""
