"""write_summaries: what a model writes about many documents, in a file, with exact resume."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

from unbottle.eval.decoding import Decoding, Prediction
from unbottle.eval.generate import predictions
from unbottle.eval.summary_file import SummaryFile
from unbottle.hf.checksum import checksum

PREDICTION = "prediction"
Report = Callable[[float, float, str], None]  # work done, work in all, what was done last


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
    report: Report = lambda done, total, text: None,
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
    report: Report = lambda done, total, text: None,
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
