"""The source code of Python's standard library: a text that every machine has."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path

LEFT_OUT = ("test", "tests", "idle_test", "site-packages", "dist-packages", "pydoc_data", "encodings", "lib2to3")
SMALLEST = 2_000  # bytes


def library_root() -> Path:
    """Of the Python that runs."""
    return Path(sysconfig.get_paths()["stdlib"])


def library_files(root: Path | None = None) -> list[tuple[bytes, Path]]:
    """Files with the hash of their names, in the order of the hashes: as good as shuffled, and the same everywhere."""
    root = library_root() if root is None else root
    found = []
    for path in root.rglob("*.py"):
        name = path.relative_to(root)
        if not set(name.parts) & {*LEFT_OUT} and path.stat().st_size >= SMALLEST:
            found.append((hashlib.sha256(name.as_posix().encode()).digest(), path))
    return sorted(found)


def read(path: Path) -> str:
    """A few files of the library show off other encodings: what is not UTF-8 is replaced."""
    return path.read_text(encoding="utf-8", errors="replace")
