"""unbottle compare: compare output layers on your own model and text."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unbottle.cli.options import DryRun, check_choice, check_method, check_model, check_place
from unbottle.cli.output import show
from unbottle.data.sources import NAMED, TEXT_NAMES
from unbottle.progress import progress

EXAMPLES = """
unbottle compare --model smollm2 --data python
unbottle compare --model HuggingFaceTB/SmolLM2-135M --data my-text.txt --tokens 100000
unbottle compare --model smollm2 --data wikitext-2 --method softmax+mi --method "softmax+c+mi form=residual"
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
            help='A row, as softmax+c+mi or "softmax+c+mi form=paper"; repeatable. [fifteen rows]',
        ),
    ] = None,
    train: Annotated[str, typer.Option(metavar="WHAT", help="Weights to train: head, all or lora.")] = "head",
    tokens: Annotated[int, typer.Option(metavar="N", help="Number of training tokens.", min=1)] = 24_576,
    valid_tokens: Annotated[
        int, typer.Option(metavar="N", help="Number of validation tokens, to choose a learning rate.", min=1)
    ] = 4_096,
    test_tokens: Annotated[int, typer.Option(metavar="N", help="Number of held-out tokens.", min=1)] = 12_288,
    length: Annotated[
        int, typer.Option(metavar="N", help="Maximum number of tokens of a window or document.", min=2)
    ] = 256,
    pairs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of training pairs of document and summary, for an encoder-decoder.", min=1
        ),
    ] = None,
    test_pairs: Annotated[
        int,
        typer.Option(
            metavar="N", help="Number of held-out pairs, with --pairs; summaries are generated for up to 100.", min=1
        ),
    ] = 400,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Batch size: windows or pairs. [2 or 8]", min=1)
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE", help="Learning rate; repeatable: the best one for the baseline is used. [1e-6 to 3e-4]"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds: 0, 1, ... N - 1.", min=1)] = 3,
    tagger: Annotated[
        str | None,
        typer.Option(
            metavar="TAGGER",
            help="Tagger of proper nouns: auto, spacy, spacy:PATH, nltk, rules, identifiers. [by the text]",
        ),
    ] = None,
    gradients: Annotated[
        int, typer.Option(metavar="N", help="Measure the gradient share at N positions (slow).", min=0)
    ] = 0,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep the trained models.")] = False,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for hidden states and models. [runs/compare-...]")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results. [results/MODEL]")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads. [all cores]")] = None,
    dry_run: DryRun = False,
) -> None:
    """Train several output layers on the same model and text, and compare them, with confidence intervals.

    The learning rate that is best for the baseline, softmax+mi, is used for all rows that have none of their own. A row
    may name one (lr=1e-4) or several (lr=3e-5,1e-4), of which the validation part chooses one. Every row sees the same
    windows in the same order. Perplexity is split by where the true next word was. With --pairs, the model is an
    encoder-decoder that learns to summarize, with one learning rate. Every row is saved when it is done: if
    interrupted, rerun the same command to resume. Several processes may share the rows.
    """
    check_choice("train", train, ("head", "all", "lora"))
    for name in method or ():
        check_method(name)
    if not dry_run:
        check_model(model)
        check_place(data, TEXT_NAMES if pairs is None else NAMED)
    from unbottle.experiments.compare import CompareWorkspace, Comparison, select_rows
    from unbottle.experiments.compare import compare as compare_models
    from unbottle.experiments.compare_summaries import (
        SummaryCompareWorkspace,
        SummaryComparison,
        compare_summaries,
        select_summary_rows,
    )

    preset: Comparison | SummaryComparison
    if pairs is None:
        preset = Comparison.create(
            model,
            data,
            train=train,
            tokens=(tokens, valid_tokens, test_tokens),
            length=length,
            batch=batch,
            lrs=lr,
            tagger=tagger,
            gradients=gradients,
        )
        rows = select_rows(method or ())
        amount = f"--tokens {tokens} --valid-tokens {valid_tokens} --test-tokens {test_tokens} --length {length}"
    else:
        preset = SummaryComparison.create(
            model, data, train=train, pairs=pairs, test_pairs=test_pairs, length=length, batch=batch, lrs=lr
        )
        rows = select_summary_rows(method or ())
        amount = f"--pairs {pairs} --test-pairs {test_pairs} --length {length}"
    size = next(iter(preset.backbones))
    work = work or Path(f"runs/compare-{size}-{Path(data).name}-{train}")
    output = output or Path(f"results/{size}")
    if dry_run:
        settings = {"methods": rows, "seeds": list(range(seeds)), "work": str(work), "output": str(output)}
        print(json.dumps({**settings, "comparison": preset.to_dict()}, indent=1))
        return
    from unbottle.cli.models import fetched, refuse_other_kind
    from unbottle.experiments.presets import Backbone
    from unbottle.hf.pretrained import language_model
    from unbottle.progress import one_line_warnings

    more = "" if lr is None else "".join(f" --lr {rate:g}" for rate in lr)
    more += (f" --batch {batch}" if batch else "") + (f" --gradients {gradients}" if gradients else "")
    more += f" --tagger {preset.to_dict()['tagger']}" if tagger and pairs is None else ""
    more += f" --seeds {seeds}" + "".join(f" --method {shlex.quote(row)}" for row in method or ())
    command = f"unbottle compare --model {size} --data {Path(data).name} --train {train} {amount}{more}"
    path = fetched(model)
    preset = replace(preset, backbones={size: Backbone(pretrained=path)})
    with one_line_warnings(), progress() as report:
        config = refuse_other_kind(path, encoder_decoder=pairs is not None)
        workspace = (CompareWorkspace if pairs is None else SummaryCompareWorkspace)(
            work, preset, data, progress=report, threads=threads
        )
        workspace.keep_models = keep_models
        with language_model(path, config):
            if isinstance(workspace, CompareWorkspace):
                results = compare_models(workspace, output, rows, seeds=range(seeds), command=command)
            else:
                results = compare_summaries(workspace, output, rows, seeds=range(seeds), command=command)
    show(results.markdown())
    print(f"\nWritten to {results.folder}")
