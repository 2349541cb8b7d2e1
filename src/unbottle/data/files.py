"""Files that hold texts: which, and what is in a plain one."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from unbottle.data.pieces import cut

PLAIN = (".txt", ".raw", ".md", ".py", ".tokens")  # one document each
TABLES = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}  # a row each; how datasets calls it
KNOWN = (*PLAIN, *TABLES)
BLOCK = 1 << 20  # bytes read at a time


def kind(path: Path) -> str:
    """The ending that says what a file is, without .gz; empty if it is none of ours."""
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return ending.lower() if ending.lower() in KNOWN and (path.suffix, ending) != (".gz", ".parquet") else ""


def files_below(folder: Path) -> list[Path]:
    """Every file of a kind we know, sorted; hidden ones and those in hidden folders left out."""
    found = [path for path in folder.rglob("*") if kind(path) and path.is_file()]
    visible = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not visible:
        raise ValueError(f"{folder}: no file with text in this folder. Known: {', '.join(KNOWN)}, and .gz of them.")
    return sorted(visible, key=lambda path: path.relative_to(folder).as_posix())


def document(path: Path) -> str:
    """All text of a plain file."""
    return "".join(pieces(path))


def pieces(path: Path) -> Iterator[str]:
    """The text of a plain file, a part at a time: joined, they are the file."""
    waiting = ""
    for block in _decoded(path):
        *whole, waiting = cut(waiting + block, BLOCK)
        yield from whole
    if waiting:
        yield waiting


def _decoded(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            while block := file.read(BLOCK):
                if b"\0" in block:
                    raise ValueError(f"{path}: a binary file (it holds NUL bytes), not a text in UTF-8.")
                yield decoder.decode(block)
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}). Convert it first: iconv -t utf-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error
