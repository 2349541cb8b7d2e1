"""Data sources: data sets known by name, files of texts or rows, and their parts for training, validation and test."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from unbottle import hub_access


@dataclass(frozen=True, kw_only=True)
class NamedPairs:
    """A data set of summaries on the hub, and its columns of documents and summaries."""

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
    # Not what the paper summarizes: that is paragraphs, which are not on the hub (see PARAGRAPHS).
    "booksum-chapters": NamedPairs(path="kmfoda/booksum", text_column="chapter", summary_column="summary_text"),
}
PARAGRAPHS = "booksum"  # the paper's data set; a folder of this name has the paragraphs that its authors' scripts make

PYTHON = "python"  # the source code of the standard library, which needs no download
NAMED_TEXTS: dict[str, str] = {  # on the hub, with the splits train, validation and test
    "wikitext-2": "Salesforce/wikitext:wikitext-2-raw-v1",
    "wikitext-103": "Salesforce/wikitext:wikitext-103-raw-v1",
    # The paper's two. Differs from the paper: its Wikipedia is a dump of 2021, which is not on the hub.
    "openwebtext": "Skylion007/openwebtext",
    "wikipedia": "wikimedia/wikipedia:20231101.en",
}
TRAIN_ONLY = ("openwebtext", "wikipedia")  # of these, the hub has no validation and no test split
SAMPLE = "sample"  # sentences made from the templates of the analogies, for tests: no download, no reading of files
TEXT_NAMES = (*NAMED_TEXTS, PYTHON)


def is_python(path: str) -> bool:
    """Whether this is the name of the standard library; a file or folder of that name takes precedence."""
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


def file_type(path: Path) -> str:
    """The suffix that says what a file contains, without .gz; empty if it is not supported."""
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return suffix.lower() if suffix.lower() in KNOWN and (path.suffix, suffix) != (".gz", ".parquet") else ""


def files_below(folder: Path) -> list[Path]:
    """Every supported file, sorted, without hidden ones and those in hidden folders."""
    files = [path for path in folder.rglob("*") if file_type(path) and path.is_file()]
    visible = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not visible:
        raise ValueError(f"{folder}: no file with text in this folder. Known: {', '.join(KNOWN)}, and .gz of them.")
    return sorted(visible, key=lambda path: path.relative_to(folder).as_posix())


def read_text(path: Path) -> str:
    """The text of a plain file."""
    return "".join(iter_text(path))


def iter_text(path: Path) -> Iterator[str]:
    """The text of a plain file in pieces; joined, they are the file."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    rest = ""
    with _readable(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        while block := file.read(BLOCK):
            if b"\0" in block:
                raise ValueError(f"{path}: a binary file (it holds NUL bytes), not a text in UTF-8.")
            *complete, rest = cut(rest + decoder.decode(block), BLOCK)
            yield from complete
        decoder.decode(b"", final=True)
    if rest:
        yield rest


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors of decoding and unpacking in one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}). Convert it first: iconv -t utf-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error


DataRow = dict[str, object]
ROW_SUFFIXES = (".jsonl", ".csv", ".parquet")


def read_rows(path: Path) -> list[DataRow]:
    """All rows of a .jsonl, .csv or .parquet file, or .gz of the first two, with all columns.

    Not by `datasets`, which gives every row the columns of all rows, changes types (the id 007) and has no line numbers
    in its errors: a prediction that is missing must be refused, not read as an empty one.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    suffix = file_type(path)
    if suffix not in ROW_SUFFIXES:
        raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(ROW_SUFFIXES)}, and .jsonl.gz, .csv.gz.")
    if suffix == ".jsonl":
        rows = [row for _, row in iter_jsonl(path)]
    else:
        rows = _csv(path) if suffix == ".csv" else _parquet(path)
    if not rows:
        raise ValueError(f"{path}: there is no row in it.")
    return rows


def iter_jsonl(path: Path) -> Iterator[tuple[int, DataRow]]:
    """The number and the object of each line that is not blank; .gz is unpacked."""
    unpack = gzip.open if path.suffix == ".gz" else open  # not str.splitlines, which ends lines at more characters
    with _readable(path), unpack(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: not valid JSON ({error}).") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: expected a JSON object with columns, not {line[:40]!r}.")
            yield number, row


def _csv(path: Path) -> list[DataRow]:
    text = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a document may be long
    try:
        rows = [*csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)]
    except csv.Error as error:
        raise ValueError(f"{path}: not a whole csv file ({error}).") from error
    for number, row in enumerate(rows, start=1):
        if "" in row or None in row.values():
            raise ValueError(f"{path}, row {number}: not as many cells as the first line has columns.")
    return [{**row} for row in rows]


def _parquet(path: Path) -> list[DataRow]:
    from pyarrow import ArrowException, parquet

    try:
        rows: list[DataRow] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise ValueError(f"{path}: not a parquet file ({error}).") from error
    return rows


PARTS = ("train", "valid", "test")
SPLITS = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}  # as the hub calls them
REPOSITORIES = NAMED_TEXTS | {name: pairs.path for name, pairs in NAMED.items()}


class Part(NamedTuple):
    """The location of a part: a file or a data set, and a split of it."""

    path: str
    split: str | None = None


def parts_of(path: str, names: Collection[str] = NAMED_TEXTS) -> dict[str, Part]:
    """The location of each part that a data set has; `train` is always one of them.

    A folder with one file train.*, one valid.* and one test.* has all three, as have data sets that are known by name.
    Other data sets on the hub have the parts that their splits are called after.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        files = {part: sorted(folder.glob(f"{part}*")) for part in PARTS}
        if all(len(paths) == 1 for paths in files.values()):
            return {part: Part(str(paths[0])) for part, paths in files.items()}
        return {"train": Part(path)}
    if folder.exists() or not (path in names or on_hub(path)):
        return {"train": Part(path)}  # a file, which may be missing: reading it says so
    if path in names:
        parts = ("train",) if path in TRAIN_ONLY else PARTS
        return {part: Part(path, SPLITS[part][0]) for part in parts}
    from unbottle.data.text import hub_splits

    available = hub_splits(path)
    chosen = {part: next((name for name in splits if name in available), None) for part, splits in SPLITS.items()}
    if chosen["train"] is None:
        raise ValueError(f"{path}: no split 'train' to learn from. There are: {', '.join(available)}.")
    return {part: Part(path, split) for part, split in chosen.items() if split is not None}


def on_hub(path: str) -> bool:
    """Whether a path that does not exist may name a data set on the hub: owner/name, or owner/name:config."""
    name = path.partition(":")[0]
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not file_type(Path(name))


def check_hub_name(path: str, names: Collection[str]) -> None:
    """Refuse a path that does not exist and cannot be on the hub; `names` are those known instead."""
    if not on_hub(path):
        raise FileNotFoundError(
            f"{path}: no such file or folder. Known by name: {', '.join(names)}; a data set on the hub is "
            "owner/name[:config]."
        )


def check_place(path: str, names: Collection[str] = TEXT_NAMES) -> None:
    """Refuse at once a path that does not exist, is not known by name and is not on the hub, without reading it."""
    place = Path(path).expanduser()
    if place.exists():
        if place.is_file() and not file_type(place):
            raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(KNOWN)}, and .gz of them.")
        return
    if path == PARAGRAPHS and "booksum-chapters" in names:
        raise FileNotFoundError(
            f"{path}: the paper's data set of paragraphs is not on the hub. Make it with the scripts of its authors "
            f"(github.com/salesforce/booksum), and give a folder {path} with train.*, valid.* and test.* whose columns "
            "are document and summary; or take the chapters, --data booksum-chapters."
        )
    if path not in names:
        check_hub_name(path, names)
    repository = REPOSITORIES.get(path, path).partition(":")[0]
    if on_hub(repository) and (why := hub_access.unavailable(repository, hub_access.DATASET)):
        known = f" ({repository} on the hub)" if repository != path else ""
        raise FileNotFoundError(
            f"{path}{known}: no such file or folder, and no data set on the hub that can be read ({why}). Give a file, "
            "or a folder with train.*, valid.* and test.*"
        )
