"""Summaries to score: ids, predictions, and what they are compared with.

SummaryFile: rows with a prediction each, on disk as soon as they are there.

write_summaries: what a model writes about many documents, in a file, with exact resume.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unbottle.eval.generation import Decoding, Prediction, predictions
from unbottle.files import Lock, explain_full_disk, output_lock, write_json
from unbottle.hf.model_identity import checksum
from unbottle.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How the columns of a file are called."""

    id: str = "id"
    document: str = "document"
    summary: str = "summary"
    prediction: str = "prediction"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """One of each for an example; `references` or `sources` is None where there are none."""

    ids: tuple[str, ...]
    predictions: tuple[str, ...]
    references: tuple[str, ...] | None
    sources: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if not self.predictions:
            raise ValueError("no predictions to score.")
        groups = {"id": self.ids, "reference": self.references, "source": self.sources}
        for name, group in groups.items():
            if group is not None and len(group) != len(self.predictions):
                raise ValueError(f"{len(self.predictions)} predictions and {len(group)} {name}s: expected as many.")
        for name, texts in {**groups, "prediction": self.predictions}.items():
            for place, text in enumerate(texts or ()):
                if not isinstance(text, str):
                    raise ValueError(f"example {self.ids[place]}: its {name} is {text!r}, and a text is needed.")
        refuse_duplicates(self.ids, "predictions")

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, Any]], *, columns: Columns | None = None, needed: Sequence[str] = ()
    ) -> Examples:
        """Examples out of rows, as a file has them or a model makes them.

        `needed` names the columns, by our names for them, that must be there: document, summary, id. Without an id, the
        number of the row is one. A text that is None counts as empty: a model may have nothing to say.
        """
        names = columns or Columns()
        found = [*rows]
        wanted = {"prediction": names.prediction, **{name: getattr(names, name) for name in needed}}
        for place, row in enumerate(found, start=1):
            for name in wanted.values():
                if name not in row:
                    there = ", ".join(map(str, row)) or "none"
                    raise ValueError(f"row {place}: no column {name!r}. There are: {there}.")

        def texts(name: str) -> tuple[Any, ...] | None:
            if not found or not all(name in row for row in found):
                return None
            return tuple("" if row[name] is None else row[name] for row in found)

        ids = texts(names.id)
        if ids is not None and "" in ids:
            raise ValueError(f"row {ids.index('') + 1}: its {names.id!r} is empty, and an id is needed.")
        return cls(
            ids=tuple(map(str, range(1, len(found) + 1) if ids is None else ids)),
            predictions=texts(names.prediction) or (),
            references=texts(names.summary),
            sources=texts(names.document),
        )

    def only(self, ids: Iterable[str]) -> Examples:
        """Those with these ids, in this order."""
        places = {each: place for place, each in enumerate(self.ids)}
        chosen = [places[each] for each in ids]

        def part(texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if texts is None else tuple(texts[place] for place in chosen)

        return Examples(
            ids=tuple(self.ids[place] for place in chosen),
            predictions=tuple(self.predictions[place] for place in chosen),
            references=part(self.references),
            sources=part(self.sources),
        )


def refuse_duplicates(ids: Iterable[str], where: str) -> None:
    twice = [each for each, times in Counter(ids).items() if times > 1]
    if twice:
        more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        raise ValueError(f"{where}: ids that occur more than once: {', '.join(twice[:3])}{more}. Each must be unique.")


def in_common(first: Examples, second: Examples) -> tuple[Examples, Examples]:
    """Both with the ids that both have, in the order of the first; what they were compared with must be the same."""
    theirs = {*second.ids}
    ids = [each for each in first.ids if each in theirs]
    if not ids:
        raise ValueError(
            f"the two runs have no id in common: {', '.join(first.ids[:3])}, ... and {', '.join(second.ids[:3])}, ..."
        )
    one, other = first.only(ids), second.only(ids)
    for name, ours, theirs_too in (
        ("reference", one.references, other.references),
        ("source", one.sources, other.sources),
    ):
        for each, a, b in zip(ids, ours or (), theirs_too or (), strict=False):
            if a != b:
                raise ValueError(f"the two runs have another {name} for id {each}: they can not be compared.")
    return one, other


class SummaryFile:
    """Lines of JSON, written as they come. Beside it, in NAME.config.json, is what they depend on.

    Without a path they go to stdout.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self._file: IO[str] = sys.stdout
        self._lock: Lock | None = None

    def __enter__(self) -> SummaryFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not sys.stdout:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    def resume(self, total: int, batch: int) -> int:
        """How many rows are there already, in whole batches; whatever follows them is cut off."""
        if self.path is None:
            return 0
        beside = self.path.with_name(f"{self.path.name}.config.json")
        self._lock = output_lock(self.path)
        self._file = self.path.open("a", encoding="utf-8", newline="\n")
        if self.path.stat().st_size:
            self._refuse_other(beside)
        write_json(beside, self.settings)
        lines = self.path.read_bytes().splitlines(keepends=True)
        whole = len(lines) - (
            bool(lines) and not lines[-1].endswith(b"\n")
        )  # the last one: killed while it was written
        kept = total if whole >= total else whole - whole % batch
        self._file.truncate(sum(len(line) for line in lines[:kept]))
        return kept

    def add(self, row: dict[str, Any]) -> None:
        with contextlib.nullcontext() if self.path is None else explain_full_disk(self.path.parent):
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()
            if self.path is not None:
                os.fsync(self._file.fileno())

    def _refuse_other(self, beside: Path) -> None:
        try:
            found = json.loads(beside.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{self.path} exists, and unbottle did not write it. Give another --output.")
        for name, value in self.settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self.path} holds predictions of other settings: {name} was {found.get(name)!r} and is {value!r} "
                    "now. Give another --output, or the settings of before to go on with it."
                )


PREDICTION = "prediction"


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Rows with a document in `column`, read again for each use; `content` tells them from any others."""

    rows: Callable[[int], Iterator[dict[str, Any]]]  # from this one on
    column: str
    total: int
    content: str

    @classmethod
    def of(cls, rows: Callable[[int], Iterator[dict[str, Any]]], column: str) -> Documents:
        total, made = 0, hashlib.sha256()
        for row in rows(0):
            total += 1
            made.update(json.dumps(row).encode())
        return cls(rows=rows, column=column, total=total, content=made.hexdigest()[:16])

    @classmethod
    def of_list(cls, rows: Sequence[dict[str, Any]], column: str) -> Documents:
        return cls.of(lambda start: iter(rows[start:]), column)


def write_summaries(
    model: Any,
    tokenizer: Any,
    documents: Documents,
    decoding: Decoding,
    path: Path | None,
    *,
    prediction: str = PREDICTION,
    report: Progress = lambda done, total, text: None,
    watch: Callable[[Iterator[Prediction]], Iterator[Prediction]] = lambda found: found,
) -> None:
    """Each row with its prediction, under that name, in order, to a jsonl file or else to stdout.

    A file that is there already is continued, with the result of a run that was never stopped; one of another model,
    other documents or another decoding is refused. `watch` sees each prediction on its way.
    """
    settings = {"input": documents.content, "text_column": documents.column, "model": checksum(model)}

    def write(texts: Iterable[str], first_batch: int) -> Iterator[Prediction]:
        return watch(predictions(model, tokenizer, texts, decoding, first_batch=first_batch))

    with SummaryFile(path, settings | decoding.to_dict()) as file:
        write_rows(file, documents, [write], decoding.batch, lambda found: {prediction: found[0].text}, report=report)


def write_rows(
    file: SummaryFile,
    documents: Documents,
    writers: Sequence[Callable[[Iterable[str], int], Iterator[Prediction]]],
    batch: int,
    fields: Callable[[Sequence[Prediction]], dict[str, Any]],
    *,
    read: str = "document",
    report: Progress = lambda done, total, text: None,
) -> None:
    """Each row with the `fields` that are made of what the writers say about it; goes on where the file ends.

    A writer is given texts and how many batches came before them.
    """
    done = file.resume(documents.total, batch)
    rows, *copies = tee(documents.rows(done), 1 + len(writers))
    streams = [
        write(_texts(copy, documents.column), done // batch) for write, copy in zip(writers, copies, strict=True)
    ]
    for row, *found in zip(rows, *streams, strict=True):
        file.add(row | fields(found))
        done += 1
        report(done, documents.total, f"{done} of {documents.total} {read}s")


def _texts(rows: Iterable[dict[str, Any]], column: str) -> Iterator[str]:
    return (row[column] or "" for row in rows)
