"""unbottle eval analogy: contexts with two equally likely next words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.eval_options import OptionalModelsArgument
from unbottle.cli.options import DryRun, OutputFolder, check_file, check_model
from unbottle.progress import progress
from unbottle.tables import Table

if TYPE_CHECKING:
    from unbottle.data.analogy import Analogy
    from unbottle.eval.analogy import AnalogyResult

EXAMPLES = """
unbottle eval analogy gpt2 runs/cpr/model
unbottle eval analogy runs/cpr/model --kind diagonal --relation family --part valid --output runs/family
unbottle eval analogy runs/cpr/model --pairs questions-words.txt
unbottle eval analogy --training-text analogies.txt --write analogies.jsonl
"""
KINDS = "diagonal, edge"
RELATIONS = "capital-common, capital-world, city-in-state, family"
PARTS = "train, valid, test"
SIZE = 400


def eval_analogy(
    model: OptionalModelsArgument = None,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help=f"{KINDS}; repeatable. [all]")] = None,
    relation: Annotated[
        list[str] | None, typer.Option(metavar="RELATION", help=f"{RELATIONS}; repeatable. [all]")
    ] = None,
    part: Annotated[str, typer.Option(metavar="PART", help=f"{PARTS}; they share no word.")] = "test",
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs of words, as in questions-words.txt. [our own]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for the parts and the contexts.")] = 0,
    size: Annotated[int, typer.Option(metavar="N", help="Maximum number of contexts per kind and relation.")] = SIZE,
    batch: Annotated[int, typer.Option(metavar="N", help="Batch size.")] = 32,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the contexts to a jsonl file.")] = None,
    training_text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the contexts of the train part with their answers, a text per line."),
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Perplexity where exactly two words are equally likely: king or woman (diagonal), king or queen (edge).

    No model is below 2, the floor. The same cross entropy for each token of the answers is lower where words have
    several tokens. Beside it stand the mean probability of both answers and of the two words of the parallelogram that
    are wrong. With --write or --training-text no model is needed.
    """
    from unbottle.cli.output import config_of, prepare, prepare_file, write_run
    from unbottle.files import write_text

    models = list(model or ())
    files = {"write": write and str(write), "training_text": training_text and str(training_text)}
    choice = {
        "kind": kind,
        "relation": relation,
        "part": part,
        "pairs": pairs and str(pairs),
        "seed": seed,
        "size": size,
    }
    config = config_of("eval analogy", {"models": models, **choice, "batch": batch, **files})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    if not (models or write or training_text):
        raise ValueError("no model to evaluate. Give a folder, or --write or --training-text FILE.")
    for path in models:
        check_model(path)
    check_file(pairs)
    from unbottle.data.analogy import KINDS as ALL_KINDS
    from unbottle.data.analogy import analogies, read_word_pairs
    from unbottle.data.analogy import training_text as texts_of

    words = None if pairs is None else read_word_pairs(pairs)
    contexts = partial(analogies, seed=seed, kinds=kind or ALL_KINDS, relations=relation, pairs=words, size=size)
    items = contexts(parts=(part,))
    prepare(output)
    for file in (write, training_text):
        prepare_file(file)
    if write is not None:
        write_text(write, "".join(json.dumps(item.to_dict(), ensure_ascii=False) + "\n" for item in items))
        print(f"{len(items)} contexts ({part}): {write}")
    if training_text is not None:
        texts = texts_of(contexts(parts=("train",)), seed=seed)
        write_text(training_text, "".join(f"{text}\n" for text in texts))
        print(f"{len(texts)} texts (train): {training_text}")
    results = evaluate(models, items, batch=batch)
    if results:
        print(table(results))
    write_run(output, config, {"part": part, "models": {name: result.to_dict() for name, result in results.items()}})


def evaluate(models: Sequence[str], items: Sequence[Analogy], *, batch: int) -> dict[str, AnalogyResult]:
    """The results of all models; only one of them is in memory at a time."""
    from unbottle.cli.models import causal_model, refuse_other_kind, short_names
    from unbottle.eval.analogy import analogy

    for path in models:  # all of them, before the first is evaluated
        refuse_other_kind(path, encoder_decoder=False)
    results: dict[str, AnalogyResult] = {}
    for path, name in zip(models, short_names(models), strict=True):
        model, tokenizer = causal_model(path)
        with progress() as report:
            results[name] = analogy(model, tokenizer, items, batch=batch, report=report)
    return results


def table(results: Mapping[str, AnalogyResult]) -> str:
    """A line for each model, kind and relation."""
    title = ("model", "kind", "relation", "contexts", "perplexity", "floor", "per token", "floor", "answers", "others")
    rows = [
        (
            name,
            row.kind,
            row.relation,
            str(row.items),
            *map(number, (row.perplexity, row.floor, row.token_perplexity, row.token_floor)),
            *(f"{value:.4f}" for value in (row.answer_mass, row.distractor_mass)),
        )
        for name, result in results.items()
        for row in result.rows
    ]
    return Table(title, rows).text()


def number(value: float) -> str:
    """Perplexities in columns: an untrained model has huge ones."""
    return f"{value:.3f}" if value < 1e6 else f"{value:.2e}"
