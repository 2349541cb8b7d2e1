"""whole_disk: a full disk is one sentence, and nothing that was written before is lost.

locked, waiting, free, own: one process at a time works in a folder or on a file, on every file system.

The locks are those of filelock: the operating system's (flock, LockFileEx), which end with their process, or, where a
network file system has none, files that exist as long as the lock is held.

Files that are there as a whole or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import BaseFileLock as Lock
from filelock import FileLock, Timeout
from safetensors import SafetensorError

FULL = (errno.ENOSPC, errno.EDQUOT)
SAYS_FULL = (  # safetensors, and torch.save in four ways
    "No space left on device",
    "os error 28",
    "Disk quota exceeded",
    "failed writing file",
    "file write failed",
    "unexpected pos",
    "iostream error",
)


@contextmanager
def whole_disk(folder: Path) -> Iterator[None]:
    """A full disk, however the libraries call it, becomes one sentence."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if getattr(error, "errno", None) in FULL or any(text in str(error) for text in SAYS_FULL):
            full = OSError(
                f"the disk of {folder} is full. What was written before is complete: make room and run the same "
                "command again, and it goes on from there."
            )
            full.errno = errno.ENOSPC  # not in the constructor, which would put a number before the sentence
            raise full from error
        raise


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


def write_json(path: Path, data: Any) -> None:
    """All of it, or what was there before."""
    with whole_disk(path.parent):
        temporary = path.with_name(f".{path.name}.writing")
        temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        put_file(temporary, path)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): it was edited. Use another output folder.") from error


def sync(path: Path) -> None:
    """What was written reaches the disk; of a folder: the names in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_file(temporary: Path, final: Path) -> None:
    """A file that was written under another name takes its place."""
    sync(temporary)
    os.replace(temporary, final)


def put_folder(temporary: Path, final: Path) -> None:
    """A folder that was written under another name takes its place."""
    for path in temporary.rglob("*"):
        if path.is_file():
            sync(path)
    if final.exists():
        aside = final.with_name(f".{final.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(final, aside)
        os.replace(temporary, final)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.replace(temporary, final)
    sync(final.parent)
