"""unbottle eval completion: a model continues texts; the paper's protocol and its scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbottle.cli.eval_options import (
    Batch,
    OptionalData,
    OptionalModelArgument,
    PartOption,
    TaggerOption,
    TextColumn,
    TextPart,
    by_implementation,
)
from unbottle.cli.options import DryRun, check_file, check_model
from unbottle.cli.output import show
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.completion import Completion, CompletionConfig

EXAMPLES = """
unbottle eval completion runs/cpr/model --data wikitext-2 --output runs/completion
unbottle eval completion runs/cpr/model --data my-text.txt --prompts 20,70 --samples 100 --seed 1
unbottle eval completion --from runs/completion/completions.jsonl --tagger rules
"""


def eval_completion(
    model: OptionalModelArgument = None,
    data: OptionalData = None,
    text_column: TextColumn = "text",
    part: PartOption = None,
    prompts: Annotated[str, typer.Option(metavar="N,N", help="Number of words in a prompt.")] = "20,70,120",
    words: Annotated[int, typer.Option(metavar="N", help="Number of words to generate.")] = 50,
    top_k: Annotated[int, typer.Option(metavar="N", help="Number of words to sample from.")] = 5,
    samples: Annotated[
        int, typer.Option(metavar="N", help="Number of excerpts; each is used with all lengths of prompts.")
    ] = 1000,
    draws: Annotated[int, typer.Option(metavar="N", help="Number of continuations of each prompt.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for excerpts and sampling.")] = 0,
    batch: Batch = 16,
    tagger: TaggerOption = "auto",
    stemmer: Annotated[
        bool, typer.Option("--stemmer", help="Compare word stems in R1, R1C and R2, as ROUGE of summaries does.")
    ] = False,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Score existing completions again, without a model.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for completions.jsonl, config.json and result.json.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Compare a model's continuations of texts with the true ones.

    R1 and R2 are ROUGE against the true continuation, R1C against the prompt, R1P and R1PC the same for proper nouns
    alone; P Ratio is the number of generated proper nouns divided by that in the true continuations. With --output,
    continuations are written as they come; if interrupted, rerun the same command to resume.
    """
    from unbottle.cli.output import config_of, prepare, write_run

    lengths = numbers(prompts)
    settings: dict[str, Any] = {
        "prompts": lengths,
        "words": words,
        "top_k": top_k,
        "samples": samples,
        "draws": draws,
        "seed": seed,
    }
    settings |= {"batch": batch}
    files = {"data": data, "column": text_column, "part": part, "from": None if from_file is None else str(from_file)}
    run_config = config_of(
        "eval completion", {"model": model, **files, **settings, "tagger": tagger, "stemmer": stemmer}
    )
    if dry_run:
        print(json.dumps(run_config, indent=1))
        return
    if from_file is not None and (model or data):
        raise ValueError("--from scores existing completions: give it without MODEL and --data.")
    check_file(from_file)
    check_model(model)
    if from_file is not None:
        prepare(output)
        from unbottle.eval.completion import read_completions, rescore
        from unbottle.eval.proper_nouns import tagger as tagger_of

        stored, rows = read_completions(from_file)
        result = rescore(stored, rows, tagger=tagger_of(tagger), stemmer=stemmer)
    else:
        if model is None or data is None:
            raise ValueError("nothing to complete. Give MODEL and --data PATH, or --from FILE.")
        text = TextPart(data=data, column=text_column, part=part)
        text.check()
        prepare(output)
        from unbottle.eval.completion import CompletionConfig

        result = evaluate(model, text, CompletionConfig(**settings), tagger, output, stemmer=stemmer)
    show(document(result))
    write_run(output, run_config, result.to_dict())


def numbers(text: str) -> tuple[int, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise ValueError(f"prompts {text!r}: expected numbers of words, as in 20,70,120.") from error


def evaluate(
    path: str, text: TextPart, config: CompletionConfig, tagger_name: str, output: Path | None, *, stemmer: bool
) -> Completion:
    from unbottle.cli.models import causal_model
    from unbottle.eval.completion import completion
    from unbottle.eval.inference import best_device
    from unbottle.eval.proper_nouns import tagger

    tag = tagger(tagger_name)
    model, tokenizer = causal_model(path)
    texts = text.texts(tokenizer)
    model.to(best_device())
    with progress() as report:
        return completion(
            model, tokenizer, texts, tagger=tag, config=config, output=output, report=report, stemmer=stemmer
        )


def document(result: Completion) -> str:
    """A Markdown table with a row for each length of prompts and one for all, then the implementations."""
    names = [*result.implementations]
    rows = [[prompt, *(number(scores[name], 3) for name in names)] for prompt, scores in result.scores.items()]
    count = f"{result.continuations} continuations of {result.mean_words:.1f} words in the mean."
    table = Table(["words read", *names], rows).markdown()
    return "\n\n".join([table, count, by_implementation(result.implementations)])
