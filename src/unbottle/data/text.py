"""Texts from a file, a folder, a hub data set or Python's standard library, all in one column `text`."""

from __future__ import annotations

import hashlib
import sysconfig
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias, cast

from datasets import (
    Dataset,
    Features,
    IterableDataset,
    Value,
    concatenate_datasets,
    get_dataset_split_names,
    load_dataset,
)
from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError
from datasets.utils import logging

from unbottle.data.sources import (
    KNOWN,
    NAMED_TEXTS,
    PLAIN,
    SAMPLE,
    TABLES,
    TEXT_NAMES,
    check_hub_name,
    file_type,
    files_below,
    is_python,
    iter_text,
    read_text,
)
from unbottle.hf.pretrained import without_bars
from unbottle.hub_access import quick_hub

LEFT_OUT = ("test", "tests", "idle_test", "site-packages", "dist-packages", "pydoc_data", "encodings", "lib2to3")
SMALLEST = 2_000  # bytes


def library_root() -> Path:
    """The folder of the standard library of the running Python."""
    return Path(sysconfig.get_paths()["stdlib"])


def library_files(root: Path) -> list[tuple[bytes, Path]]:
    """Files with the hashes of their names, sorted by hash: as good as shuffled, and the same everywhere."""
    files = []
    for path in root.rglob("*.py"):
        name = path.relative_to(root)
        if not set(name.parts) & {*LEFT_OUT} and path.stat().st_size >= SMALLEST:
            files.append((hashlib.sha256(name.as_posix().encode()).digest(), path))
    return sorted(files)


def read(path: Path) -> str:
    """The text of a file of the library; a few have other encodings, of which what is not UTF-8 is replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


TEXT = "text"
Rows: TypeAlias = Dataset | IterableDataset


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """A source of texts.

    `path` is a file (plain text is one document; of .jsonl, .json, .csv and .parquet each row is one, in `column`), a
    folder of such files, a name of TEXT_NAMES, or a data set on the hub: owner/name, or owner/name:config. `split` is a
    split of a hub data set. `streaming` reads as it goes, for what does not fit on the disk or into memory.
    """

    path: str
    column: str = TEXT
    split: str | None = None
    streaming: bool = False


def read_texts(source: TextSource) -> Rows:
    """The texts of a source, in one column `text`. A streamed plain file comes in pieces: joined, they are the file."""
    path = Path(source.path).expanduser()
    with quiet_datasets():
        if path.is_dir():
            texts = _files(files_below(path), source)
        elif path.is_file():
            if not file_type(path):
                raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(KNOWN)}, and .gz of them.")
            texts = _files([path], source)
        elif is_python(source.path):
            texts = _library(streaming=source.streaming)
        elif source.path == SAMPLE:
            texts = Dataset.from_dict({TEXT: sample_texts()})
        else:
            place = NAMED_TEXTS.get(source.path, source.path)
            rows = hub(place, source.split, names=TEXT_NAMES, streaming=source.streaming)
            texts = _column(rows, source, source.path)
        with closing(cast(Generator[dict[str, str]], iter(texts))) as iterator:
            if not any(row[TEXT] and not row[TEXT].isspace() for row in iterator):
                raise ValueError(f"{source.path}: there is no text in it.")
    return texts


def quiet_datasets() -> AbstractContextManager[None]:
    """No progress bars, and no log messages beside the error that is raised."""
    return without_bars(logging, logging.CRITICAL)


def _files(paths: list[Path], source: TextSource) -> Rows:
    parts: list[Rows] = []
    for plain, group in groupby(paths, key=lambda path: file_type(path) in PLAIN):
        if plain:
            parts.append(_plain([*group], source.streaming))
        else:
            parts += [_column(table(path, streaming=source.streaming), source, str(path)) for path in group]
    return parts[0] if len(parts) == 1 else concatenate_datasets(parts)


def sample_texts() -> list[str]:
    """Some thousand words in which names come back, from the templates of the analogies: the same on every machine."""
    from unbottle.data.analogy import analogies, training_text

    return [" ".join(training_text(analogies(size=20), seed=0)) + " "]


def sample_pairs() -> list[dict[str, str]]:
    """Documents of two sentences, and a summary that names who or what they were about."""
    from unbottle.data.analogy import analogies

    items = analogies(size=40)
    return [
        {
            "document": " ".join(f"{item.prompt} {item.answers[0]}." for item in (one, other)),
            "summary": f"It was about {one.answers[0]} and {other.answers[0]}.",
        }
        for one, other in zip(items[::2], items[1::2], strict=True)
    ]


def _plain(paths: list[Path], streaming: bool) -> Rows:
    """A document for each file; a stream has a row for each piece of a file."""
    if streaming:
        return IterableDataset.from_generator(_pieces, gen_kwargs={"paths": paths})
    return Dataset.from_dict({TEXT: [read_text(path) for path in paths]})


def _library(*, streaming: bool) -> Rows:
    """Python's standard library: a document for each file."""
    texts = Dataset.from_dict({TEXT: [read(path) for _, path in library_files(library_root())]})
    return texts.to_iterable_dataset() if streaming else texts


def _pieces(paths: list[Path]) -> Iterator[dict[str, str]]:
    for path in paths:
        for piece in iter_text(path):
            yield {TEXT: piece}


def table(path: Path, *, streaming: bool = False) -> Rows:
    """The rows of a json, csv or parquet file."""
    if not path.stat().st_size:
        raise ValueError(f"{path}: the file is empty.")
    builder = TABLES[file_type(path)]
    try:
        return _with_features(load_dataset(builder, data_files=str(path), split="train", streaming=streaming))
    except (DatasetGenerationError, ValueError, EOFError, zlib.error) as error:  # the last two: of incomplete .gz
        reason = " ".join(str(error.__cause__ or error).rstrip(".").split())
        raise ValueError(f"{path}: cannot be read as {file_type(path).lstrip('.')} ({reason}).") from error


def hub(
    path: str,
    split: str | None,
    *,
    names: Collection[str],
    streaming: bool = False,
    revision: str | None = None,
) -> Rows:
    """A split of a data set on the hub: owner/name, or owner/name:config. Loading it never executes its code.

    `names` are those that an error lists as known.
    """
    check_hub_name(path, names)
    options = {} if revision is None else {"revision": revision}
    with _repository(path) as (name, config):
        return _with_features(load_dataset(name, config, split=split or "train", streaming=streaming, **options))


def hub_splits(path: str) -> list[str]:
    """The names of the splits of a data set on the hub."""
    with quiet_datasets(), _repository(path) as (name, config):
        return [*get_dataset_split_names(name, config)]


@contextmanager
def _repository(path: str) -> Iterator[tuple[str, str | None]]:
    """The repository and the config of owner/name:config; errors of the hub inside are put in one sentence."""
    name, _, config = path.partition(":")
    try:
        with quick_hub(name):
            yield name, config or None
    except (DatasetNotFoundError, ConnectionError) as error:
        reason = " ".join(str(error).split())
        raise FileNotFoundError(
            f"{path}: no such file or folder, and no data set on the hub that can be read ({reason})."
        ) from error


def _with_features(rows: Rows) -> Rows:
    """The rows with known columns, for which a stream has to be read."""
    return rows._resolve_features() if rows.features is None else rows


def _column(rows: Rows, source: TextSource, where: str) -> Rows:
    """The column of texts alone, under the name `text`, without missing values."""
    dtype = check_text(rows, source.column, where)
    rows = rows.select_columns([source.column])
    if source.column != TEXT:
        rows = rows.rename_column(source.column, TEXT)
    if dtype != "string":
        rows = rows.cast_column(TEXT, Value("string"))
    missing = isinstance(rows, IterableDataset) or rows.data.column(TEXT).null_count
    return rows.filter(_has_text) if missing else rows


def check_text(rows: Rows, column: str, where: str) -> str:
    """The type of a column of texts; rows without such a column are refused."""
    features = cast(Features, rows.features)
    if column not in features:
        raise ValueError(f"{where}: no column {column!r}. There are: {', '.join(features)}.")
    feature = features[column]
    if not (isinstance(feature, Value) and feature.dtype in ("string", "large_string")):
        kind = feature.dtype if isinstance(feature, Value) else type(feature).__name__
        raise ValueError(f"{where}: column {column!r} holds {kind}, and texts are needed.")
    return str(feature.dtype)


def _has_text(row: dict[str, object]) -> bool:
    return row[TEXT] is not None
