"""unbottle summarize: a model writes summaries of a text, or of all documents of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unbottle.eval.generate import Decoding, Prediction

EXAMPLES = """
unbottle summarize letter.txt --model runs/cepr/model
unbottle summarize - --model runs/cepr/model --sampling beams
unbottle summarize test.jsonl --model runs/cepr/model --text-column dialogue --output runs/predictions.jsonl
"""
STDIN = "-"


def summarize(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text, a jsonl file, or - for a text on stdin.")],
    model: Annotated[str, typer.Option(metavar="DIR", help="An encoder-decoder model, with a head or without.")],
    sampling: Annotated[str, typer.Option(metavar="HOW", help="top-k, greedy or beams.")] = "top-k",
    top_k: Annotated[int, typer.Option(metavar="N", help="Sample from so many most likely words.")] = 10,
    beams: Annotated[int, typer.Option(metavar="N", help="Beams, for --sampling beams.")] = 4,
    max_length: Annotated[int, typer.Option(metavar="N", help="Tokens of a summary, at most.")] = 128,
    source_length: Annotated[
        int, typer.Option(metavar="N", help="Tokens of a document that are read, if the model can.")
    ] = 1024,
    batch: Annotated[int, typer.Option(metavar="N", help="Documents at once; another number, other samples.")] = 8,
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The field with documents, of jsonl.")] = "document",
    prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Before each document. [what the model's config names, or nothing]"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sampling.")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. [stdout, and nothing else goes there]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole config, do nothing.")] = False,
) -> None:
    """Summarize a text, or each document of a jsonl file.

    Of jsonl, each line comes back with all its fields and `prediction`, in order. With --output lines are written as
    they come, and a run that was killed goes on from there, with the result of one that was not. What is too long is
    cut, with a warning; an empty document has an empty summary.
    """
    from unbottle.cli.phases import one_line_warnings
    from unbottle.cli.run_folder import config_of, write_text
    from unbottle.eval.generate import Decoding, predictions

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_length, source_length=source_length, batch=batch,
        prefix=prefix, seed=seed,
    )  # fmt: skip
    run = {"file": file, "model": model, "text_column": text_column, "output": None if output is None else str(output)}
    if dry_run:
        print(json.dumps(config_of("summarize", run | decoding.to_dict()), indent=1))
        return
    with one_line_warnings():
        if file.endswith((".jsonl", ".jsonl.gz")):
            many(Path(file), text_column, model, decoding, output)
            return
        text = one_text(file)
        made = Dropped()
        (found,) = made.watch(predictions(*loaded(model), [text], decoding))
        made.tell()
        if output is None:
            print(found.text)
        else:
            write_text(output, found.text + "\n")
            print(f"Written to {output}", file=sys.stderr)


def one_text(file: str) -> str:
    """All of a text file, or of stdin."""
    if file == STDIN:
        try:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"stdin: not a text in UTF-8 ({error.reason}).") from error
    from unbottle.data.files import TABLES, document, kind

    if kind(Path(file)) in TABLES:
        raise ValueError(f"{file}: {kind(Path(file))} is not summarized. Give a text, or a .jsonl or .jsonl.gz file.")
    return document(Path(file))


def many(path: Path, column: str, model: str, decoding: Decoding, output: Path | None) -> None:
    """Each document of a jsonl file. All of it is checked before the model is loaded."""
    from unbottle.cli.document_file import documents_of
    from unbottle.cli.progress import progress
    from unbottle.eval.write_summaries import write_summaries

    if output is not None and output.resolve() == path.resolve():
        raise ValueError(f"--output {output}: that is the file to read. Give another one.")
    documents = documents_of(path, column)
    network, tokenizer = loaded(model)
    made = Dropped()
    with progress() as report:
        try:
            write_summaries(network, tokenizer, documents, decoding, output, report=report, watch=made.watch)
        finally:
            made.tell()
    if output is not None:
        print(f"Written to {output}", file=sys.stderr)


def loaded(model: str) -> tuple[Any, Any]:
    from unbottle.cli.causal_model import seq2seq_model
    from unbottle.eval.device import best_device

    network, tokenizer = seq2seq_model(model)
    return network.to(best_device()), tokenizer


class Dropped:
    """Counts what was not read, and says so on stderr."""

    def __init__(self) -> None:
        self.documents = self.cut = self.tokens = self.empty = 0

    def watch(self, found: Iterable[Prediction]) -> Iterator[Prediction]:
        for prediction in found:
            self.documents += 1
            self.cut += prediction.dropped > 0
            self.tokens += prediction.dropped
            self.empty += prediction.empty
            yield prediction

    def tell(self) -> None:
        if self.cut:
            what = "the document" if self.documents == 1 else f"{self.cut} of {self.documents} documents"
            verb = "is" if self.documents == 1 else "are"
            print(
                f"unbottle: warning: {what} {verb} too long: {self.tokens:,} tokens at the end were dropped.",
                file=sys.stderr,
            )
        if self.empty:
            what = "the document is" if self.documents == 1 else f"{self.empty} of {self.documents} documents are"
            print(f"unbottle: note: {what} empty, and so is the summary.", file=sys.stderr)
