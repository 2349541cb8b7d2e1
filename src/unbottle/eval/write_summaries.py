"""write_summaries: what a model writes about many documents, in a file, with exact resume."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

from unbottle.eval.generate import Decoding, Prediction, predictions
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
    with SummaryFile(path, settings | decoding.to_dict()) as written:
        done = written.resume(documents.total, decoding.batch)
        rows, copies = tee(documents.rows(done))
        texts = (row[documents.column] or "" for row in copies)
        found = predictions(model, tokenizer, texts, decoding, first_batch=done // decoding.batch)
        for row, summary in zip(rows, watch(found), strict=True):
            written.add(row | {prediction: summary.text})
            done += 1
            report(done, documents.total, f"{done} of {documents.total} documents")
