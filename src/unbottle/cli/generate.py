"""unbottle generate: models go on with a text, side by side, or with every prompt of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.early import MODELS_HELP, check_choice, check_file, check_model

if TYPE_CHECKING:
    from unbottle.cli.predicting import Writer
    from unbottle.eval.decoding import Decoding

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
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sampling.")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. [stdout, and nothing else goes there]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole config, do nothing.")] = False,
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
    from unbottle.cli.phases import one_line_warnings
    from unbottle.cli.predicting import Job, one, predict
    from unbottle.cli.run_folder import config_of
    from unbottle.eval.decoding import Decoding

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
    from unbottle.cli.causal_model import causal_model, short_names
    from unbottle.cli.predicting import Writer
    from unbottle.eval.device import best_device
    from unbottle.eval.going_on import going_on

    found = []
    for path, name in zip(models, short_names(models), strict=True):
        network, tokenizer = causal_model(path)
        network = network.to(best_device())
        write = partial(going_on, network, tokenizer, decoding=decoding)
        found.append(Writer(name=name, model=network, write=write))
    return found
