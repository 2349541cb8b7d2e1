"""Corpus: a text in three parts, as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unbottle.data import TextSource, read_texts, split, tokens_of
from unbottle.data.files import BLOCK, files_below

PARTS = ("train", "valid", "test")
PAPER_CUT = (0.96, 0.02, 0.02)
ON_THE_HUB = {"train": "train", "valid": "validation", "test": "test"}


class Part(NamedTuple):
    """Where a part is: a file or a data set, and which split of it."""

    path: str
    split: str | None = None


@dataclass(frozen=True)
class Corpus:
    """Tokens of the parts. A folder with files train.*, valid.*, test.* has its own; one text is cut, like the paper's
    96/2/2 if nothing else is said."""

    train: Any
    valid: Any
    test: Any

    @staticmethod
    def of(path: str, tokenizer: Any, cut: tuple[float, float, float] = PAPER_CUT) -> Corpus:
        found = {
            part: tokens_of(read_texts(TextSource(path=where.path, split=where.split)), tokenizer)
            for part, where in parts_of(path).items()
        }
        return Corpus(**(found if len(found) == len(PARTS) else split(found["train"], cut)))


def parts_of(path: str, names: Collection[str] = ()) -> dict[str, Part]:
    """Where each part is, or one place for all of them; `names` are those of data sets on the hub without an owner."""
    folder = Path(path)
    if folder.is_dir():
        files = {part: sorted(folder.glob(f"{part}*")) for part in PARTS}
        if all(len(found) == 1 for found in files.values()):
            return {part: Part(str(found[0])) for part, found in files.items()}
        return {"train": Part(path)}
    on_hub = path in names or ("/" in path and path.count("/") == 1 and not path.startswith("."))
    if folder.exists() or not on_hub:
        return {"train": Part(path)}  # a file; if there is none, who reads it says so
    return {part: Part(path, name) for part, name in ON_THE_HUB.items()}


def content_of(path: str) -> str | None:
    """Tells a text from any other, whatever it is called; None of a data set on the hub, which is known by its name."""
    place = Path(path).expanduser()
    if not place.exists():
        return None
    made = hashlib.sha256()
    for file in files_below(place) if place.is_dir() else [place]:
        made.update(f"{file.relative_to(place).as_posix()} {file.stat().st_size}\n".encode())
        with open(file, "rb") as opened:
            while block := opened.read(BLOCK):
                made.update(block)
    return made.hexdigest()[:16]


def training_texts(path: str) -> Iterator[str]:
    """What a tokenizer may learn from."""
    where = parts_of(path)["train"]
    rows: Iterable[Any] = read_texts(TextSource(path=where.path, split=where.split))
    for row in rows:
        yield row["text"]
