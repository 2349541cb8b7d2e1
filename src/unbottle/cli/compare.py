"""unbottle compare: output layers on a model and a text of one's own."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.errors import INTERRUPTED
from unbottle.cli.options import DryRun, check_choice, check_method, check_model, check_place
from unbottle.cli.output import show
from unbottle.data.sources import NAMED, TEXT_NAMES
from unbottle.progress import progress

EXAMPLES = """
unbottle compare --model smollm2 --data python
unbottle compare --model HuggingFaceTB/SmolLM2-135M --data my-text.txt --tokens 100000
unbottle compare --model smollm2 --data wikitext-2 --method softmax+mi --method "softmax+c+mi form=difference"
unbottle compare --model smollm2 --data wikitext-2 --train all --lr 1e-5 --seeds 1
unbottle compare --model t5-small --data samsum --pairs 1600 --lr 3e-4 --seeds 1 --train all
"""


def compare(
    model: Annotated[
        str,
        typer.Option(metavar="MODEL", help="A causal model: a folder, a hub name, or smollm2, which the demo uses."),
    ],
    data: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="A file, a folder with files train, valid and test, a hub data set, wikitext-2, wikitext-103, or "
            "python: the source code of its standard library.",
        ),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help='Rows, as softmax+c+mi or "softmax+c+mi form=paper"; repeatable. [fifteen]',
        ),
    ] = None,
    train: Annotated[str, typer.Option(metavar="WHAT", help="head, all or lora.")] = "head",
    tokens: Annotated[int, typer.Option(metavar="N", help="To train on.", min=1)] = 24_576,
    valid_tokens: Annotated[int, typer.Option(metavar="N", help="To choose a learning rate by.", min=1)] = 4_096,
    test_tokens: Annotated[int, typer.Option(metavar="N", help="Held out.", min=1)] = 12_288,
    length: Annotated[int, typer.Option(metavar="N", help="Tokens of a window, or of a document.", min=2)] = 256,
    pairs: Annotated[
        int | None,
        typer.Option(metavar="N", help="To train on, of documents and summaries: for encoder-decoder models.", min=1),
    ] = None,
    test_pairs: Annotated[
        int, typer.Option(metavar="N", help="Held out, with --pairs; of up to 100, summaries are written.", min=1)
    ] = 400,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Windows or pairs of a step. [2 or 8]", min=1)] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE", help="Learning rate; of several, the best for the baseline is for all rows. [1e-6 to 3e-4]"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="How many: 0, 1, ... N - 1.", min=1)] = 3,
    tagger: Annotated[
        str | None,
        typer.Option(
            metavar="TAGGER", help="Of names: auto, spacy, spacy:PATH, nltk, rules, identifiers. [by the text]"
        ),
    ] = None,
    gradients: Annotated[
        int, typer.Option(metavar="N", help="Also measure the share of the gradient at N positions (slow).", min=0)
    ] = 0,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep what is trained, not numbers only.")] = False,
    work: Annotated[Path | None, typer.Option(metavar="DIR", help="For what takes long. [runs/compare-...]")] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="For results. [results/MODEL]")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads of torch. [all cores]")] = None,
    dry_run: DryRun = False,
) -> None:
    """Train several output layers on the same model and text, and say which is better, with intervals.

    A learning rate is chosen for the baseline, softmax+mi, and used for
    all rows that have none of their own: lr=1e-4, or several, as lr=3e-5,1e-4, of which the validation part chooses
    one. Every row sees the same windows in the same order. Perplexity is split by where the true next word was. With
    --pairs the model is an encoder-decoder, which learns from documents and summaries and writes summaries of others;
    one learning rate. What is done is kept, row by row: the same command goes on where it was stopped, and several may
    share the rows.
    """
    check_choice("train", train, ("head", "all", "lora"))
    for name in method or ():
        check_method(name)
    if not dry_run:
        check_model(model)
        check_place(data, TEXT_NAMES if pairs is None else NAMED)
    from unbottle.experiments.compare_summaries import comparison_from, rows_from, summary_comparison_from

    how: Any
    if pairs is None:
        parts = (tokens, valid_tokens, test_tokens)
        how = comparison_from(model, data, train, tokens=parts, length=length, batch=batch, lrs=lr, tagger=tagger)
        how = replace(how, gradients=gradients)
        amount = f"--tokens {tokens} --valid-tokens {valid_tokens} --test-tokens {test_tokens} --length {length}"
    else:
        held = {"test_pairs": test_pairs, "length": length}
        how = summary_comparison_from(model, data, train, pairs=pairs, batch=batch, lrs=lr, **held)
        amount = f"--pairs {pairs} --test-pairs {test_pairs} --length {length}"
    rows, size = rows_from(method or (), summaries=pairs is not None), next(iter(how.backbones))
    work = work or Path(f"runs/compare-{size}-{Path(data).name}-{train}")
    output = output or Path(f"results/{size}")
    if dry_run:
        chosen = {"methods": rows, "seeds": list(range(seeds)), "work": str(work), "output": str(output)}
        print(json.dumps({**chosen, "comparison": how.to_dict()}, indent=1))
        return
    from unbottle.cli.models import language_model, refuse_other_kind
    from unbottle.experiments.compare import CompareLab
    from unbottle.experiments.compare import compare as run
    from unbottle.experiments.compare_summaries import SummaryCompareLab, compare_summaries, with_model
    from unbottle.progress import one_line_warnings

    rates = "" if lr is None else "".join(f" --lr {rate:g}" for rate in lr)
    more = (f" --batch {batch}" if batch else "") + (f" --gradients {gradients}" if gradients else "")
    more += f" --tagger {how.to_dict()['tagger']}" if tagger and pairs is None else ""
    more += f" --seeds {seeds}" + "".join(f" --method {shlex.quote(row)}" for row in method or ())
    told = f"unbottle compare --model {size} --data {Path(data).name} --train {train} {amount}{rates}{more}"
    with one_line_warnings(), progress() as report:
        how = with_model(how, report)
        path = str(how.backbones[size].pretrained)
        config = refuse_other_kind(path, encoder_decoder=pairs is not None)
        lab: Any = (CompareLab if pairs is None else SummaryCompareLab)(work, how, data, report=report, threads=threads)
        lab.keep_models = keep_models
        try:
            with language_model(path, config):
                record = (run if pairs is None else compare_summaries)(lab, output, rows, seeds=range(seeds), told=told)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    show(record.document())
    print(f"\nWritten to {record.folder}")
