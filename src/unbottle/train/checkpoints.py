"""Checkpoints: folders that are whole, or do not count."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

from unbottle.train.files import put_folder, whole_disk, write_json

PREFIX = "checkpoint-"
MANIFEST = "manifest.json"
BLOCK = 1 << 20


def seal(temporary: Path, folder: Path) -> Path:
    """A checkpoint that was written under another name gets its list of files, and only then its own name."""
    with whole_disk(folder):
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        marks = {path.relative_to(temporary).as_posix(): _mark(path) for path in files}
        write_json(temporary / MANIFEST, marks)
        put_folder(temporary, folder / temporary.name)
    return folder / temporary.name


def latest(folder: Path) -> Path | None:
    """The last checkpoint. One that was cut or edited is refused by its name, and the one before it is offered."""
    damaged: list[str] = []
    for path in reversed(_sorted(folder)):
        if not (problem := _problem(path)):
            break
        damaged.append(f"{path} ({problem})")
    else:
        path = None
    if damaged:
        those = "it" if len(damaged) == 1 else "them"
        before = "to start from the beginning" if path is None else f"to go on from {path.name}, which is whole"
        raise ValueError(f"damaged: {', '.join(damaged)}. Delete {those} {before}, and run the same command again.")
    return path


def newest(folder: Path) -> Path | None:
    """The last checkpoint, whole or not."""
    return next(reversed(_sorted(folder)), None)


def rotate(folder: Path, keep: int) -> None:
    """Only the last few stay."""
    for path in _sorted(folder)[:-keep]:
        (path / MANIFEST).unlink(missing_ok=True)  # first: what is half deleted must not count
        shutil.rmtree(path, ignore_errors=True)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def _sorted(folder: Path) -> list[Path]:
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()]
    return sorted(found, key=step_of)


def _mark(path: Path) -> list[int]:
    """Size and checksum of a file."""
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def _problem(path: Path) -> str | None:
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name, (size, checksum) in files.items():
            found = _mark(path / name)
            if found[0] != size:
                return f"{name} has {found[0]} bytes, not {size}"
            if found[1] != checksum:
                return f"{name} was damaged"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return f"{MANIFEST} can not be read"
    return None
