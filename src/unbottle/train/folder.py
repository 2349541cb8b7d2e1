"""The folder of a run: one process at a time, and one set of settings for all time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unbottle.train.files import read_json, write_json
from unbottle.train.settings import FREE

RECORD = "run.json"
LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuses a second process; the lock of one that was killed is gone with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise ValueError(
                f"{folder}: another process ({file.read().strip() or 'number unknown'}) trains in this folder. Wait "
                "for it, or give another output folder."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def claim(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Write down what this run is; refuse if the folder holds another one. The record that counts is returned."""
    path = folder / RECORD
    if not path.exists():
        write_json(path, record)
        return record
    stored: dict[str, Any] = read_json(path)
    for part, values in record.items():
        old = stored.get(part, {})
        for name, value in values.items():
            if (part, name) in {("settings", free) for free in FREE}:
                continue
            if plain(value) != old.get(name):
                what = name if part == "settings" else f"{part} {name}"
                raise ValueError(
                    f"{folder} holds a run with other settings: {what} was {old.get(name)!r} and is {value!r} now. "
                    "Give another output folder, or the settings of before to go on with it."
                )
    return stored


def plain(value: Any) -> Any:
    """As it comes back from a file."""
    return list(value) if isinstance(value, tuple) else value
