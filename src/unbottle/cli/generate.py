"""Documents of a jsonl file, to be summarized.

Models write about a text, or about each row of a jsonl file: what summarize and generate have in common.

unbottle generate: models go on with a text, side by side, or with every prompt of a file.

unbottle summarize: a model writes summaries of a text, or of all documents of a file.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from unbottle.cli.options import MODELS_HELP, Dropped, DryRun, SamplingSeed, check_choice, check_file, check_model
from unbottle.cli.output import show_text

if TYPE_CHECKING:
    from unbottle.eval.generation import Decoding, Prediction
    from unbottle.eval.summary_files import Documents


def documents_of(path: Path, column: str) -> Documents:
    """All of the file is read and refused if a row is wrong; its texts are not kept."""
    from unbottle.eval.summary_files import Documents

    found = Documents.of(partial(rows_of, path, column), column)
    if not found.total:
        raise ValueError(f"{path}: the file is empty.")
    return found


def rows_of(path: Path, column: str, start: int = 0) -> Iterator[dict[str, Any]]:
    """Each line with something on it, from the row `start` on. A document may be null, which is empty."""
    found = -1
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        found += 1
        if found < start:
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not valid JSON ({error}).") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: expected an object, as in {{{column!r}: ...}}.")
        if column not in row:
            raise ValueError(
                f"{path}, line {number}: no field {column!r}. There are: {', '.join(row)}. Name it with --text-column."
            )
        if not isinstance(row[column], (str, type(None))):
            raise ValueError(f"{path}, line {number}: {column!r} is {type(row[column]).__name__}, not a text.")
        yield row


def _lines(path: Path) -> Iterator[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="\n") as file
        ):
            yield from file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8 ({error.reason}).") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a complete gzip file ({error}).") from error


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
    from unbottle.cli.output import prepare_file
    from unbottle.files import write_text

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
    from unbottle.data.sources import TABLES, document, kind

    if kind(Path(file)) in TABLES:
        raise ValueError(
            f"{file}: {job.command} does not read {kind(Path(file))}. Give a text, or a .jsonl or .jsonl.gz file."
        )
    return document(Path(file))


def many(path: Path, load: Callable[[], Sequence[Writer]], job: Job) -> None:
    """Each row of a jsonl file. All of it is checked before a model is loaded."""
    from unbottle.cli.output import prepare_file
    from unbottle.eval.summary_files import SummaryFile, write_rows
    from unbottle.hf.model_identity import checksum
    from unbottle.progress import progress

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


EXAMPLES = """
unbottle generate runs/cpr/model --prompt "There are plates, keys and balls in front of me, and I pick up the"
unbottle generate gpt2 runs/cpr/model --prompt "The king and the woman" --max-new-tokens 20
unbottle generate runs/cpr/model --file story.txt --sampling beams
unbottle generate gpt2 runs/cpr/model --file prompts.jsonl --text-column prompt --output runs/generated.jsonl
"""
SAMPLING = ("greedy", "top-k", "beams")


def generate(
    model: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help=MODELS_HELP),
    ],
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="The text to go on with.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instead: a text, a jsonl file, or - for a text on stdin.")
    ] = None,
    sampling: Annotated[str, typer.Option(metavar="HOW", help="greedy, top-k or beams.")] = "greedy",
    top_k: Annotated[int, typer.Option(metavar="N", help="Words to sample from, for --sampling top-k.")] = 10,
    beams: Annotated[int, typer.Option(metavar="N", help="Beams, for --sampling beams.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(metavar="N", help="Tokens to write, at most.")] = 50,
    prompt_length: Annotated[
        int, typer.Option(metavar="N", help="Tokens of a prompt that are read, the last ones, if the model can.")
    ] = 1024,
    batch: Annotated[int, typer.Option(metavar="N", help="Prompts at once; another number, other samples.")] = 8,
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The field with prompts, of jsonl.")] = "prompt",
    seed: SamplingSeed = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. [stdout, and nothing else goes there]")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Go on with a text, or with each prompt of a jsonl file; with several models, one after the other.

    The prompt is not repeated. Of jsonl, each line comes back with all its fields and `prediction`, or `predictions` by
    the names of several models, in order. With --output lines are written as they come, and a run that was killed
    goes on from there. A prompt that is too long loses its beginning, with a warning.
    """
    check_choice("sampling", sampling, SAMPLING)
    if not dry_run:
        if (prompt is None) == (file is None):
            raise ValueError("give --prompt TEXT or --file FILE (- for stdin); one of them.")
        check_file(file)
        for path in model:
            check_model(path)
    from unbottle.cli.output import config_of
    from unbottle.eval.generation import Decoding
    from unbottle.progress import one_line_warnings

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_new_tokens, source_length=prompt_length,
        batch=batch, seed=seed,
    )  # fmt: skip
    run = {"models": model, "prompt": prompt, "file": file, "text_column": text_column}
    if dry_run:
        settings = run | {"output": None if output is None else str(output)} | decoding.to_dict()
        print(json.dumps(config_of("generate", settings), indent=1))
        return
    job = Job(
        command="generate", decoding=decoding, column=text_column, output=output, read="prompt", written="text",
        dropped_at="beginning",
    )  # fmt: skip
    load = partial(loaded, model, decoding)
    with one_line_warnings():
        if prompt is not None:
            one(prompt, load, job)
        else:
            assert file is not None
            predict(file, load, job)


def loaded(models: Sequence[str], decoding: Decoding) -> list[Writer]:
    from unbottle.cli.models import causal_model, short_names
    from unbottle.eval.generation import continue_prompts
    from unbottle.eval.inference import best_device

    found = []
    for path, name in zip(models, short_names(models), strict=True):
        network, tokenizer = causal_model(path)
        network = network.to(best_device())
        write = partial(continue_prompts, network, tokenizer, decoding=decoding)
        found.append(Writer(name=name, model=network, write=write))
    return found


SUMMARIZE_EXAMPLES = """
unbottle summarize letter.txt --model runs/cepr/model
unbottle summarize - --model runs/cepr/model --sampling beams
unbottle summarize test.jsonl --model runs/cepr/model --text-column dialogue --output runs/predictions.jsonl
"""


def summarize(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text, a jsonl file, or - for a text on stdin.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="An encoder-decoder model, with a head or without.")],
    sampling: Annotated[str, typer.Option(metavar="HOW", help="greedy, top-k or beams.")] = "top-k",
    top_k: Annotated[int, typer.Option(metavar="N", help="Words to sample from, for --sampling top-k.")] = 10,
    beams: Annotated[int, typer.Option(metavar="N", help="Beams, for --sampling beams.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(metavar="N", help="Tokens of a summary, at most.")] = 128,
    source_length: Annotated[
        int, typer.Option(metavar="N", help="Tokens of a document that are read, if the model can.")
    ] = 1024,
    batch: Annotated[int, typer.Option(metavar="N", help="Documents at once; another number, other samples.")] = 8,
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The field with documents, of jsonl.")] = "document",
    prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Before each document. [what the model's config names, or nothing]"),
    ] = None,
    seed: SamplingSeed = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. [stdout, and nothing else goes there]")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Summarize a text, or each document of a jsonl file.

    Of jsonl, each line comes back with all its fields and `prediction`, in order. With --output lines are written as
    they come, and a run that was killed goes on from there, with the result of one that was not. What is too long is
    cut, with a warning; an empty document has an empty summary.
    """
    check_choice("sampling", sampling, SAMPLING)
    if not dry_run:
        check_file(file)
        check_model(model)
    from unbottle.cli.output import config_of
    from unbottle.eval.generation import Decoding
    from unbottle.progress import one_line_warnings

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_new_tokens, source_length=source_length,
        batch=batch, prefix=prefix, seed=seed,
    )  # fmt: skip
    run = {"file": file, "model": model, "text_column": text_column, "output": None if output is None else str(output)}
    if dry_run:
        print(json.dumps(config_of("summarize", run | decoding.to_dict()), indent=1))
        return
    job = Job(
        command="summarize", decoding=decoding, column=text_column, output=output, read="document", written="summary",
        dropped_at="end",
    )  # fmt: skip
    with one_line_warnings():
        predict(file, lambda: [writer(model, decoding)], job)


def writer(model: str, decoding: Decoding) -> Writer:
    from unbottle.eval.generation import predictions

    network, tokenizer = loaded_seq2seq(model)
    return Writer(name=model, model=network, write=partial(predictions, network, tokenizer, decoding=decoding))


def loaded_seq2seq(model: str) -> tuple[Any, Any]:
    from unbottle.cli.models import seq2seq_model
    from unbottle.eval.inference import best_device

    network, tokenizer = seq2seq_model(model)
    return network.to(best_device()), tokenizer
