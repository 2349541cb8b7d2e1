"""Corpus: a text in three parts, as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbottle.data import TextSource, read_texts, split, tokens_of
from unbottle.data.files import BLOCK, files_below

PARTS = ("train", "valid", "test")
ON_THE_HUB = {"train": "train", "valid": "validation", "test": "test"}


@dataclass(frozen=True)
class Corpus:
    """Tokens of the parts. A folder with files train.*, valid.*, test.* has its own; one text is cut 96/2/2."""

    train: Any
    valid: Any
    test: Any

    @staticmethod
    def of(path: str, tokenizer: Any) -> Corpus:
        sources = parts_of(path)
        if len(sources) == len(PARTS):
            return Corpus(**{part: tokens_of(read_texts(source), tokenizer) for part, source in sources.items()})
        return Corpus(**split(tokens_of(read_texts(sources["train"]), tokenizer)))


def parts_of(path: str) -> dict[str, TextSource]:
    """A source for each part, or one for all of them."""
    folder = Path(path)
    if folder.is_dir():
        files = {part: sorted(folder.glob(f"{part}*")) for part in PARTS}
        if all(len(found) == 1 for found in files.values()):
            return {part: TextSource(path=str(found[0])) for part, found in files.items()}
        return {"train": TextSource(path=path)}
    if folder.exists() or "/" not in path or path.count("/") > 1 or path.startswith("."):
        return {"train": TextSource(path=path)}  # a file; if there is none, read_texts says so
    return {part: TextSource(path=path, split=name) for part, name in ON_THE_HUB.items()}


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
    rows: Iterable[Any] = read_texts(parts_of(path)["train"])
    for row in rows:
        yield row["text"]
