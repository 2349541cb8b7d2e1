"""The source code of Python's standard library: a text that every machine has.

Texts from a file, a folder or a hub data set, all as one column `text`.
"""

from __future__ import annotations

import hashlib
import sysconfig
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset, Value, concatenate_datasets, get_dataset_split_names, load_dataset
from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError
from datasets.utils import logging

from unbottle.data.sources import (
    KNOWN,
    NAMED_TEXTS,
    PLAIN,
    TABLES,
    TEXT_NAMES,
    document,
    files_below,
    is_python,
    kind,
    on_hub,
    pieces,
)
from unbottle.hf.pretrained import without_bars
from unbottle.hub_access import quick_hub

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


TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """Where texts come from.

    `path` is a file (plain text is one document; of .jsonl, .json, .csv and .parquet each row is one, in `column`), a
    folder of such files, a name of TEXT_NAMES, or a data set on the hub: owner/name, or owner/name:config. `split` is a
    split of a hub data set. `streaming` reads as it goes, for what does not fit on the disk or into memory.
    """

    path: str
    column: str = TEXT
    split: str | None = None
    streaming: bool = False


def read_texts(source: TextSource) -> Dataset | IterableDataset:
    """The texts of a source, in one column `text`. A streamed plain file comes in pieces: joined, they are the file."""
    path = Path(source.path).expanduser()
    with quiet_datasets():
        if path.is_dir():
            texts = _files(files_below(path), source)
        elif path.is_file():
            if not kind(path):
                raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(KNOWN)}, and .gz of them.")
            texts = _files([path], source)
        elif is_python(source.path):
            texts = _library(streaming=source.streaming)
        else:
            texts = _hub(source)
        rows: Any = iter(texts)
        with closing(rows):
            if not any(row[TEXT] and not row[TEXT].isspace() for row in rows):
                raise ValueError(f"{source.path}: there is no text in it.")
    return texts


def quiet_datasets() -> AbstractContextManager[None]:
    """No bars, and no errors in a log beside the one that is raised."""
    return without_bars(logging, logging.CRITICAL)


def _files(paths: list[Path], source: TextSource) -> Dataset | IterableDataset:
    found = []
    for plain, group in groupby(paths, key=lambda path: kind(path) in PLAIN):
        members = [*group]
        found += [_plain(members, source.streaming)] if plain else [_table(path, source) for path in members]
    return found[0] if len(found) == 1 else concatenate_datasets(found)


def _plain(paths: list[Path], streaming: bool) -> Dataset | IterableDataset:
    if streaming:
        streamed: IterableDataset = IterableDataset.from_generator(_rows, gen_kwargs={"paths": paths})
        return streamed
    return Dataset.from_dict({TEXT: [document(path) for path in paths]})


def _library(*, streaming: bool) -> Dataset | IterableDataset:
    """Python's standard library: a document for each file."""
    texts = Dataset.from_dict({TEXT: [read(path) for _, path in library_files()]})
    return texts.to_iterable_dataset() if streaming else texts


def _rows(paths: list[Path]) -> Iterator[dict[str, str]]:
    for path in paths:
        for piece in pieces(path):
            yield {TEXT: piece}


def _table(path: Path, source: TextSource) -> Any:
    return _column(table(path, streaming=source.streaming), source, str(path))


def table(path: Path, *, streaming: bool = False) -> Any:
    """The rows of a file."""
    if not path.stat().st_size:
        raise ValueError(f"{path}: the file is empty.")
    builder = TABLES[kind(path)]
    try:
        rows = _known(load_dataset(builder, data_files=str(path), split="train", streaming=streaming))
    except (DatasetGenerationError, ValueError, EOFError, zlib.error) as error:  # the last two: of .gz that was cut
        reason = " ".join(str(error.__cause__ or error).rstrip(".").split())
        raise ValueError(f"{path}: can not be read as {kind(path).lstrip('.')} ({reason}).") from error
    return rows


def _hub(source: TextSource) -> Any:
    if source.path not in NAMED_TEXTS and "/" not in source.path and not kind(Path(source.path)):
        raise FileNotFoundError(
            f"{source.path}: no such file or folder. Known by name: {', '.join(TEXT_NAMES)}; a data set on the hub is "
            "owner/name[:config]."
        )
    found = hub(NAMED_TEXTS.get(source.path, source.path), source.split, streaming=source.streaming)
    return _column(found, source, source.path)


def hub(path: str, split: str | None, *, streaming: bool = False, **options: Any) -> Any:
    """A split of a data set on the hub: owner/name, or owner/name:config. Code that it brings along is never run."""
    name, config = _asked(path)
    with _answering(path, name):
        return _known(load_dataset(name, config, split=split or "train", streaming=streaming, **options))


def hub_splits(path: str) -> list[str]:
    """The names of the splits of a data set on the hub."""
    name, config = _asked(path)
    with quiet_datasets(), _answering(path, name):
        return [*get_dataset_split_names(name, config)]


def _asked(path: str) -> tuple[str, str | None]:
    """The repository and the config of owner/name:config."""
    if not on_hub(path):
        raise FileNotFoundError(f"{path}: no such file or folder (a data set on the hub is owner/name[:config]).")
    name, _, config = path.partition(":")
    return name, config or None


@contextmanager
def _answering(path: str, name: str) -> Iterator[None]:
    """What the hub does not have, or does not say, in one sentence."""
    try:
        with quick_hub(name):
            yield
    except (DatasetNotFoundError, ConnectionError) as error:
        reason = " ".join(str(error).split())
        raise FileNotFoundError(
            f"{path}: no such file or folder, and no data set on the hub that can be read ({reason})."
        ) from error


def _known(rows: Any) -> Any:
    """A stream does not know its columns before it was read."""
    return rows._resolve_features() if rows.features is None else rows


def _column(rows: Any, source: TextSource, where: str) -> Any:
    """Only the column that was asked for, under the name `text`."""
    check_text(rows, source.column, where)
    type_ = rows.features[source.column]
    rows = rows.select_columns([source.column])
    if source.column != TEXT:
        rows = rows.rename_column(source.column, TEXT)
    if type_.dtype != "string":
        rows = rows.cast_column(TEXT, Value("string"))
    holes = isinstance(rows, IterableDataset) or rows.data.column(TEXT).null_count
    return rows.filter(_is_there) if holes else rows


def check_text(rows: Any, column: str, where: str) -> None:
    """Refuse rows that have no such column, or no texts in it."""
    if column not in rows.features:
        raise ValueError(f"{where}: no column {column!r}. There are: {', '.join(rows.features)}.")
    type_ = rows.features[column]
    if not (isinstance(type_, Value) and type_.dtype in ("string", "large_string")):
        raise ValueError(f"{where}: column {column!r} holds {_name(type_)}, and texts are needed.")


def _is_there(row: dict[str, Any]) -> bool:
    return row[TEXT] is not None


def _name(type_: Any) -> str:
    return type_.dtype if isinstance(type_, Value) else "lists" if isinstance(type_, list) else type(type_).__name__
