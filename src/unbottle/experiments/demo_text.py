"""The text of the demo: the source code of Python's own standard library, which every machine has.

Programs define names and use them again a few lines later, so that the next word is often one of the context.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbottle.data import Windows, tokens_of
from unbottle.data.text import library_files, library_root, read

LICENCE = "PSF License Agreement"
PARTS = {"base": 115, "train": 230, "test": 256}  # the first byte of the hash of a name below which it belongs there


@dataclass(frozen=True, kw_only=True)
class Code:
    """Files of the parts: for a model trained from nothing, for heads, and held out. No file is in two of them."""

    root: Path
    parts: dict[str, tuple[Path, ...]]

    def windows(self, part: str, tokenizer: Any, *, length: int, tokens: int, each: int) -> tuple[Windows, int]:
        """Windows of at least so many tokens together, at most `each` from the middle of a file; and how many files.

        The middle, because files begin with what they are about and end with what tests them. No window has text of
        two files.
        """
        found: list[np.ndarray] = []
        wanted = -(-tokens // length)
        have = files = 0
        for path in self.parts[part]:
            if have >= wanted:
                break
            ids = tokens_of([{"text": read(path)}], tokenizer)
            count = min(each, len(ids) // length, wanted - have)
            start = (len(ids) - count * length) // 2
            found.append(ids[start : start + count * length])
            have, files = have + count, files + bool(count)
        if have < wanted:
            raise ValueError(
                f"the standard library in {self.root} has {have * length:,} tokens for the part {part!r}, and "
                f"{tokens:,} are needed. Is it complete? Use a Python that was installed with its source."
            )
        return Windows(np.concatenate(found), length, whole=True), files

    def fingerprint(self) -> str:
        """Of names and sizes: another Python has another library."""
        listed = [
            f"{path.relative_to(self.root)} {path.stat().st_size}" for each in self.parts.values() for path in each
        ]
        return hashlib.sha256("\n".join(sorted(listed)).encode()).hexdigest()[:16]


def code(root: Path | None = None) -> Code:
    """The library of the Python that runs. Which file is in which part depends on its name alone."""
    root = library_root() if root is None else root
    parts: dict[str, list[tuple[bytes, Path]]] = {part: [] for part in PARTS}
    for key, path in library_files(root):
        parts[next(part for part, below in PARTS.items() if key[0] < below)].append((key[1:], path))
    return Code(root=root, parts={part: tuple(path for _, path in sorted(found)) for part, found in parts.items()})


def description() -> str:
    return f"the standard library of Python {platform.python_version()}"


def texts(paths: Sequence[Path]) -> list[str]:
    return [read(path) for path in paths]
