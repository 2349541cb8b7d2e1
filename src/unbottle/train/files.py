"""Files that are there as a whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from unbottle.disk.full import whole_disk

__all__ = ["put_file", "put_folder", "read_json", "sync", "whole_disk", "write_json"]


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
