"""Data sets that are known by a short name: texts, and the summarization data of the paper.

A long text in pieces that tokenise as the whole does.

Files that hold texts: which, and what is in a plain one.

Rows of a table, with all their columns: jsonl, csv and parquet.

Where a data set is, and where its parts for training, validation and test are.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unbottle import hub_access


@dataclass(frozen=True, kw_only=True)
class NamedPairs:
    """Where it is, and which columns hold documents and summaries."""

    path: str  # owner/name, or owner/name:config
    text_column: str
    summary_column: str
    revision: str | None = None


NAMED: dict[str, NamedPairs] = {
    "cnn_dailymail": NamedPairs(path="abisee/cnn_dailymail:3.0.0", text_column="article", summary_column="highlights"),
    # Its main branch has a script, which is never run; this branch of the hub has the same rows in files.
    "xsum": NamedPairs(
        path="EdinburghNLP/xsum", text_column="document", summary_column="summary", revision="refs/convert/parquet"
    ),
    # A copy: the data set of its authors (Samsung/samsum) is not on the hub any more.
    "samsum": NamedPairs(path="knkarthick/samsum", text_column="dialogue", summary_column="summary"),
    # Differs from the paper: chapters. The paper summarizes paragraphs, which are not on the hub: their authors publish
    # scripts that make them. Give the file that those write as a path.
    "booksum": NamedPairs(path="kmfoda/booksum", text_column="chapter", summary_column="summary_text"),
}

PYTHON = "python"  # the source code of the standard library, which needs no download
NAMED_TEXTS: dict[str, str] = {  # on the hub, with the splits train, validation and test
    "wikitext-2": "Salesforce/wikitext:wikitext-2-raw-v1",
    "wikitext-103": "Salesforce/wikitext:wikitext-103-raw-v1",
}
TEXT_NAMES = (*NAMED_TEXTS, PYTHON)


def is_python(path: str) -> bool:
    """Whether the standard library is meant; a file or folder of that name comes first, as with every name."""
    return path == PYTHON and not Path(path).exists()


WORD_END = re.compile(r"(?<=\S)(?=\s)")


def cut(text: str, size: int) -> list[str]:
    """Pieces of at least `size` characters, the last one shorter, cut between the end of a word and the space after it.

    Tokenizers that cut texts into words before anything else (GPT-2's, and most byte-level ones) never join what is on
    two sides of such a place. Where a tokenizer adds a space to the start of a text, it adds one to each piece.
    """
    pieces, start = [], 0
    while len(text) - start > size and (end := WORD_END.search(text, start + size)):
        pieces.append(text[start : end.start()])
        start = end.start()
    return [*pieces, text[start:]]


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


ENDINGS = (".jsonl", ".csv", ".parquet")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a .jsonl or .csv file, or .gz of them, or a .parquet file. Lines without anything are left out."""
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    if ending not in ENDINGS:
        raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(ENDINGS)}, and .jsonl.gz, .csv.gz.")
    rows = {".jsonl": _json_lines, ".csv": _csv, ".parquet": _parquet}[ending](path)
    if not rows:
        raise ValueError(f"{path}: there is no row in it.")
    return rows


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}). Convert it first: iconv -t utf-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error


def _json_lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    # split, not splitlines: a text may hold characters that end a line for str.splitlines, and only for it
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error}). Each line is one JSON object.") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is no JSON object with columns.")
        rows.append(row)
    return rows


def _csv(path: Path) -> list[dict[str, Any]]:
    text = _text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a document may be long
    try:
        rows = [*csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)]
    except csv.Error as error:
        raise ValueError(f"{path}: not a whole csv file ({error}).") from error
    for number, row in enumerate(rows, start=1):
        if "" in row or None in row.values():
            raise ValueError(f"{path}, row {number}: not as many cells as the first line has columns.")
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    from pyarrow import ArrowException, parquet

    try:
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise ValueError(f"{path}: not a parquet file ({error}).") from error
    return found


PARTS = ("train", "valid", "test")
SPLITS = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}  # as the hub calls them
REPOSITORIES = NAMED_TEXTS | {name: pairs.path for name, pairs in NAMED.items()}


class Part(NamedTuple):
    """Where a part is: a file or a data set, and which split of it."""

    path: str
    split: str | None = None


def parts_of(path: str, names: Collection[str] = NAMED_TEXTS) -> dict[str, Part]:
    """Where each part is; a part that a data set does not have is left out, and only `train` is always there.

    A folder with one file train.*, one valid.* and one test.* has all three, as have data sets that are known by name.
    Of others on the hub, their splits decide.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        files = {part: sorted(folder.glob(f"{part}*")) for part in PARTS}
        if all(len(found) == 1 for found in files.values()):
            return {part: Part(str(found[0])) for part, found in files.items()}
        return {"train": Part(path)}
    if folder.exists() or not (path in names or on_hub(path)):
        return {"train": Part(path)}  # a file; if there is none, who reads it says so
    if path in names:
        return {part: Part(path, splits[0]) for part, splits in SPLITS.items()}
    from unbottle.data.text import hub_splits

    there = hub_splits(path)
    found = {part: next((name for name in splits if name in there), None) for part, splits in SPLITS.items()}
    if found["train"] is None:
        raise ValueError(f"{path}: no split 'train' to learn from. There are: {', '.join(there)}.")
    return {part: Part(path, split) for part, split in found.items() if split is not None}


def on_hub(path: str) -> bool:
    """Whether something that is not here may be a data set of the hub: owner/name, or owner/name:config."""
    name = path.partition(":")[0]
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not kind(Path(name))


def check_place(path: str, names: Collection[str] = TEXT_NAMES) -> None:
    """Refuse at once what is neither here, nor known by name, nor on the hub. Nothing is read or downloaded."""
    place = Path(path).expanduser()
    if place.exists():
        if place.is_file() and not kind(place):
            raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(KNOWN)}, and .gz of them.")
        return
    if path not in names and not on_hub(path):
        raise FileNotFoundError(
            f"{path}: no such file or folder. Known by name: {', '.join(names)}; a data set on the hub is "
            "owner/name[:config]."
        )
    repository = REPOSITORIES.get(path, path).partition(":")[0]
    if on_hub(repository) and (why := hub_access.unavailable(repository, hub_access.DATASET)):
        known = f" ({repository} on the hub)" if repository != path else ""
        raise FileNotFoundError(
            f"{path}{known}: no such file or folder, and no data set on the hub that can be read ({why}). Give a file, "
            "or a folder with train.*, valid.* and test.*"
        )
