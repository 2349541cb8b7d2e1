"""Corpus: a text in three parts, as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbottle.data import TextSource, read_texts, split, tokens_of
from unbottle.data.files import BLOCK, files_below
from unbottle.data.named import is_python
from unbottle.data.parts import PARTS, parts_of
from unbottle.recipes.demo.source_code import code

PAPER_CUT = (0.96, 0.02, 0.02)


@dataclass(frozen=True)
class Corpus:
    """Tokens of the parts. A folder with files train.*, valid.*, test.* has its own, as has a data set on the hub. What
    is missing is cut off the end of the training text; of one text like the paper's 96/2/2, if nothing else is said."""

    train: Any
    valid: Any
    test: Any

    @staticmethod
    def of(path: str, tokenizer: Any, cut: tuple[float, float, float] = PAPER_CUT, *, column: str = "text") -> Corpus:
        found = {
            part: tokens_of(read_texts(TextSource(path=where.path, column=column, split=where.split)), tokenizer)
            for part, where in parts_of(path).items()
        }
        missing = {part: 0.0 if part in found else share for part, share in zip(PARTS, cut, strict=True)}
        shares = (1 - missing["valid"] - missing["test"], missing["valid"], missing["test"])
        return Corpus(**split(found.pop("train"), shares) | found)


def check_texts(path: str) -> None:
    """Refuse what has no text that can be read, in any of its parts."""
    for where in parts_of(path).values():
        read_texts(TextSource(path=where.path, split=where.split))


def content_of(path: str) -> str | None:
    """Tells a text from any other, whatever it is called; None of a data set on the hub, which is known by its name."""
    if is_python(path):
        return code().fingerprint()
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
