"""Models write about a text, or about each row of a jsonl file: what summarize and generate have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from unbottle.cli.dropped import Dropped
from unbottle.cli.output import show_text

if TYPE_CHECKING:
    from unbottle.eval.decoding import Decoding, Prediction

STDIN = "-"


class Write(Protocol):
    """What a model makes of texts, one by one; `first_batch` batches came before them."""

    def __call__(self, texts: Iterable[str], /, *, first_batch: int = 0) -> Iterator[Prediction]: ...


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A model, and how it writes."""

    name: str
    model: Any
    write: Write


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a command was told, and how it calls what is read and written."""

    command: str
    decoding: Decoding
    column: str  # of jsonl
    output: Path | None  # a file; None: stdout
    read: str
    written: str
    dropped_at: str  # which end of what is too long


def predict(file: str, load: Callable[[], Sequence[Writer]], job: Job) -> None:
    """A text file or stdin, or jsonl. Whatever can be refused is refused before a model is loaded."""
    if file.endswith((".jsonl", ".jsonl.gz")):
        many(Path(file), load, job)
    else:
        one(one_text(file, job), load, job)


def one(text: str, load: Callable[[], Sequence[Writer]], job: Job) -> None:
    """What one model writes, and nothing else; of several, each after its name."""
    from unbottle.cli.run_folder import prepare_file, write_text

    prepare_file(job.output)
    writers, found = load(), []
    for writer in writers:
        dropped = Dropped(job.read, job.written, job.dropped_at, name=writer.name if len(writers) > 1 else "")
        (prediction,) = dropped.watch(writer.write([text]))
        dropped.tell()
        found.append(prediction.text)
    if len(writers) > 1:
        found = [f"{writer.name}:\n{text.strip()}\n" for writer, text in zip(writers, found, strict=True)]
    whole = "\n".join(found)
    if job.output is None:
        show_text(whole)
    else:
        write_text(job.output, whole + "\n")
        print(f"Written to {job.output}", file=sys.stderr)


def one_text(file: str, job: Job) -> str:
    """All of a text file, or of stdin."""
    if file == STDIN:
        try:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"stdin: not a text in UTF-8 ({error.reason}).") from error
    from unbottle.data.files import TABLES, document, kind

    if kind(Path(file)) in TABLES:
        raise ValueError(
            f"{file}: {job.command} does not read {kind(Path(file))}. Give a text, or a .jsonl or .jsonl.gz file."
        )
    return document(Path(file))


def many(path: Path, load: Callable[[], Sequence[Writer]], job: Job) -> None:
    """Each row of a jsonl file. All of it is checked before a model is loaded."""
    from unbottle.cli.document_file import documents_of
    from unbottle.cli.progress import progress
    from unbottle.cli.run_folder import prepare_file
    from unbottle.eval.summary_file import SummaryFile
    from unbottle.eval.write_summaries import write_rows
    from unbottle.hf.checksum import checksum

    output = job.output
    if output is not None and output.resolve() == path.resolve():
        raise ValueError(f"--output {output}: that is the file to read. Give another one.")
    documents = documents_of(path, job.column)
    prepare_file(output)
    writers = load()
    sums = [checksum(writer.model) for writer in writers]
    settings = {"input": documents.content, "text_column": job.column, "model": sums[0] if len(sums) == 1 else sums}
    dropped = [
        Dropped(job.read, job.written, job.dropped_at, name=writer.name if len(writers) > 1 else "")
        for writer in writers
    ]
    watched = [partial(_watched, writer, counts) for writer, counts in zip(writers, dropped, strict=True)]
    with SummaryFile(output, settings | job.decoding.to_dict()) as file, progress() as report:
        try:
            fields = partial(_fields, writers)
            write_rows(file, documents, watched, job.decoding.batch, fields, read=job.read, report=report)
        finally:
            for counts in dropped:
                counts.tell()
    if output is not None:
        print(f"Written to {output}", file=sys.stderr)


def _watched(writer: Writer, counts: Dropped, texts: Iterable[str], first_batch: int) -> Iterator[Prediction]:
    return counts.watch(writer.write(texts, first_batch=first_batch))


def _fields(writers: Sequence[Writer], found: Sequence[Prediction]) -> dict[str, Any]:
    """What is added to a row: `prediction`, or of several models `predictions` by their names."""
    if len(writers) == 1:
        return {"prediction": found[0].text}
    return {"predictions": {writer.name: made.text for writer, made in zip(writers, found, strict=True)}}
