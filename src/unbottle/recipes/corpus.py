"""Corpus: a text in three parts, as tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unbottle.data import TextSource, read_texts, split, tokens_of

PARTS = ("train", "valid", "test")
ON_THE_HUB = {"train": "train", "valid": "validation", "test": "test"}


class Part(NamedTuple):
    """Where a part is: a file or a data set, and which split of it."""

    path: str
    split: str | None = None


@dataclass(frozen=True)
class Corpus:
    """Tokens of the parts. A folder with files train.*, valid.*, test.* has its own; one text is cut 96/2/2."""

    train: Any
    valid: Any
    test: Any

    @staticmethod
    def of(path: str, tokenizer: Any) -> Corpus:
        found = {
            part: tokens_of(read_texts(TextSource(path=where.path, split=where.split)), tokenizer)
            for part, where in parts_of(path).items()
        }
        return Corpus(**(found if len(found) == len(PARTS) else split(found["train"])))


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


def training_texts(path: str) -> Iterator[str]:
    """What a tokenizer may learn from."""
    where = parts_of(path)["train"]
    rows: Iterable[Any] = read_texts(TextSource(path=where.path, split=where.split))
    for row in rows:
        yield row["text"]
