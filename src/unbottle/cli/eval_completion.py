"""unbottle eval completion: a model goes on with texts; the paper's protocol and its scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.options import MODEL_HELP, TEXT_HELP, DryRun, check_file, check_model
from unbottle.cli.output import show
from unbottle.cli.text_part import HELP, TextPart
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.completion import Completion, Protocol

EXAMPLES = """
unbottle eval completion runs/cpr/model --data wikitext-2 --output runs/completion
unbottle eval completion runs/cpr/model --data my-text.txt --prompts 20,70 --samples 100 --seed 1
unbottle eval completion --from runs/completion/completions.jsonl --tagger rules
"""


def eval_completion(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="PATH", help=TEXT_HELP),
    ] = None,
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The column that holds texts.")] = "text",
    part: Annotated[str | None, typer.Option(metavar="PART", help=HELP)] = None,
    prompts: Annotated[str, typer.Option(metavar="N,N", help="Words to read.")] = "20,70,120",
    words: Annotated[int, typer.Option(metavar="N", help="Words to generate.")] = 50,
    top_k: Annotated[int, typer.Option(metavar="N", help="Sample from so many most likely words.")] = 5,
    samples: Annotated[int, typer.Option(metavar="N", help="Stretches of text, each used with every prompt.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the stretches and of the sampling.")] = 0,
    batch: Annotated[int, typer.Option(metavar="N", help="Prompts at once; another number, other samples.")] = 16,
    tagger: Annotated[
        str, typer.Option(metavar="TAGGER", help="Of proper nouns: auto, spacy, spacy:PATH, nltk or rules.")
    ] = "auto",
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Score these completions again, without a model.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for completions.jsonl, config.json and result.json.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Let a model go on with texts and compare what it writes with what was written.

    R1 and R2 are ROUGE against the true continuation, R1C against the prompt, R1P and R1PC the same for proper nouns
    alone; P Ratio is proper nouns generated to proper nouns in the truth. With --output the continuations are
    written as they come, and a run that was killed goes on from there.
    """
    from unbottle.cli.output import config_of, prepare, write_run

    settings = {"prompts": numbers(prompts), "words": words, "top_k": top_k, "samples": samples, "seed": seed}
    files = {"data": data, "column": text_column, "part": part, "from": None if from_file is None else str(from_file)}
    config = config_of("eval completion", {"model": model, **files, **settings, "batch": batch, "tagger": tagger})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    if from_file is not None and (model or data):
        raise ValueError("--from scores completions that are there: give it without MODEL and --data.")
    if from_file is None and (model is None or data is None):
        raise ValueError("nothing to complete. Give MODEL and --data PATH, or --from FILE.")
    check_file(from_file)
    check_model(model)
    text = TextPart(data=data or "", column=text_column, part=part)
    if from_file is not None:
        prepare(output)
        found = again(from_file, tagger)
    else:
        text.check()
        prepare(output)
        from unbottle.eval.completion import Protocol

        protocol = Protocol(**settings, batch=batch)  # type: ignore[arg-type]
        found = evaluate(str(model), text, protocol, tagger, output)
    show(document(found))
    write_run(output, config, found.to_dict())


def numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise ValueError(f"prompts {text!r}: expected numbers of words, as in 20,70,120.") from error


def evaluate(model: str, text: TextPart, protocol: Protocol, tagger: str, output: Path | None) -> Completion:
    from unbottle.cli.models import causal_model
    from unbottle.eval.completion import completion
    from unbottle.eval.inference import best_device
    from unbottle.eval.proper_nouns import tagger as tagger_of

    text.check()
    found = tagger_of(tagger)
    loaded, tokenizer = causal_model(model)
    texts = text.texts(tokenizer)
    loaded.to(best_device())
    with progress() as report:
        return completion(loaded, tokenizer, texts, tagger=found, protocol=protocol, output=output, report=report)


def again(path: Path, tagger: str) -> Completion:
    from unbottle.eval.completion import read_completions, rescore
    from unbottle.eval.proper_nouns import tagger as tagger_of

    settings, rows = read_completions(path)
    return rescore(settings, rows, tagger=tagger_of(tagger))


def document(found: Completion) -> str:
    """A row for each number of words that were read, and one for all; then whose numbers they are."""
    names = [*found.implementations]
    rows = [[prompt, *(number(scores[name], 3) for name in names)] for prompt, scores in found.scores.items()]
    by_code: dict[str, list[str]] = {}
    for name, code in found.implementations.items():
        by_code.setdefault(code, []).append(name)
    notes = "\n".join(f"{', '.join(members)}: {code}." for code, members in by_code.items())
    count = f"{found.continuations} continuations of {found.mean_words:.1f} words in the mean."
    return "\n\n".join([Table(["words read", *names], rows).markdown(), count, notes])
