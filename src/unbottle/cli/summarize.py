"""unbottle summarize: a model writes summaries of a text, or of all documents of a file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbottle.cli.early import check_choice, check_file, check_model
from unbottle.cli.generate import SAMPLING

if TYPE_CHECKING:
    from unbottle.cli.predicting import Writer
    from unbottle.eval.decoding import Decoding

EXAMPLES = """
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
    check_choice("sampling", sampling, SAMPLING)
    if not dry_run:
        check_file(file)
        check_model(model)
    from unbottle.cli.phases import one_line_warnings
    from unbottle.cli.predicting import Job, predict
    from unbottle.cli.run_folder import config_of
    from unbottle.eval.decoding import Decoding

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
    from unbottle.cli.predicting import Writer
    from unbottle.eval.generate import predictions

    network, tokenizer = loaded(model)
    return Writer(name=model, model=network, write=partial(predictions, network, tokenizer, decoding=decoding))


def loaded(model: str) -> tuple[Any, Any]:
    from unbottle.cli.causal_model import seq2seq_model
    from unbottle.eval.device import best_device

    network, tokenizer = seq2seq_model(model)
    return network.to(best_device()), tokenizer
