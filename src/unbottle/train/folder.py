"""The folder of a run: one process at a time, and one set of settings for all time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbottle.disk.lock import locked
from unbottle.train.files import read_json, write_json
from unbottle.train.settings import FREE

__all__ = ["RECORD", "claim", "locked"]

RECORD = "run.json"


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
