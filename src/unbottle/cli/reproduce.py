"""unbottle reproduce: run an experiment of the paper and show the paper's numbers beside the results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.errors import INTERRUPTED
from unbottle.cli.options import check_choice, check_file, check_method, check_place
from unbottle.cli.output import show
from unbottle.data.sources import NAMED, SAMPLE, TEXT_NAMES
from unbottle.progress import progress

NAMES = (
    "table1", "table2", "table3", "table4", "analogy", "size-curve", "sweep-k", "order-bias", "summarization",
    "t5-size-curve",
)  # fmt: skip
TEMPLATES = ("public", "own")
PRESETS = ("paper", "cpu", "tiny")
EXAMPLES = """
unbottle reproduce table1 --preset cpu --data wikitext-2
unbottle reproduce table1 --preset cpu --data wikitext-2 --seeds 3 --output results/cpu
unbottle reproduce table1 --preset cpu --method softmax+mi --method softmax+c+mi
unbottle reproduce analogy --pairs questions-words.txt
unbottle reproduce table1 --preset tiny
unbottle reproduce order-bias --preset paper --dry-run
unbottle reproduce summarization --preset cpu --data samsum --size T5 --threads 1
unbottle reproduce t5-size-curve --preset paper --data cnn_dailymail
"""


def reproduce(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=f"{', '.join(NAMES)}.")],
    preset: Annotated[
        str, typer.Option(metavar="PRESET", help="cpu: small models trained here; paper: hub models and a GPU; tiny.")
    ] = "cpu",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A file, a folder with files train, valid and test, a hub data set, or a known name: wikitext-2, "
            "wikitext-103, openwebtext, wikipedia, python; of summaries cnn_dailymail, xsum, samsum, booksum-chapters. "
            "[the preset's]",
        ),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="METHOD", help="Run only this row; repeatable. [all of the table]")
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this backbone; repeatable. [all of the experiment]"),
    ] = None,
    templates: Annotated[
        str, typer.Option(metavar="NAME", help="analogy: public, the paper's protocol, or own, our templates.")
    ] = "public",
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="analogy: pairs of words, as in questions-words.txt. [the package's]"),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds: 0, 1, ... N - 1.", min=1)] = 1,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for trained models. [runs/reproduce-PRESET, or -PRESET-DATA]"),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results. [results/PRESET]")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads. [all cores]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the preset and exit.")] = False,
) -> None:
    """Run every row of a table of the paper and show the paper's own numbers beside it.

    table1: perplexity of fifteen output layers. table2: word-by-word reranker. table3: text completion. table4: next
    words after three prompts. analogy: ambiguous contexts. size-curve: loss against size. sweep-k: how many words to
    rerank. order-bias: does the order of a list matter? summarization: T5 and BART with ten output layers, on pairs of
    document and summary (a folder that is named after a data set, as samsum, has its columns). t5-size-curve: their
    loss against size. Every row is saved when it is done: if interrupted, rerun the same command to resume. Several
    processes may share the rows.

    Preset cpu, estimated time per row: table1, size-curve and sweep-k 4 minutes, table2 30 (wbwR) or 2, table3 10,
    analogy 3, table4 and order-bias seconds, summarization 5, t5-size-curve 4; a backbone is trained first, in 10 to 15
    minutes. Preset paper needs a GPU, the Hub and days; preset tiny needs nothing and takes seconds.
    """
    check_choice("experiment", experiment, NAMES)
    check_choice("preset", preset, PRESETS)
    check_choice("templates", templates, TEMPLATES)
    for name in method or ():
        check_method(name)
    if not dry_run:
        check_file(pairs)
        if data not in (None, SAMPLE):
            check_place(data, (*TEXT_NAMES, *NAMED))
    from unbottle.experiments.catalog import EXPERIMENTS, select_methods, select_sizes

    if experiment == "analogy" and templates == "own":
        experiment = "analogy-own"
    table, variant = EXPERIMENTS[experiment], ""
    if pairs is not None:
        from unbottle.data.analogy import read_word_pairs

        if not experiment.startswith("analogy"):
            raise ValueError(f"--pairs {pairs}: only for analogy, not for {experiment}.")
        variant = f"-{pairs.stem}"
        measure_pairs: Any = table.measure  # those of the analogies take these two
        words = None if dry_run else read_word_pairs(pairs)
        table = replace(table, measure=partial(measure_pairs, pairs=words, name=variant))
    settings = table.workspace.presets[preset]
    methods, sizes = select_methods(table, settings, method or ()), select_sizes(table, settings, size or ())
    data = data or settings.data
    suffix = table.workspace.suffix(data)
    work = work or Path(f"runs/reproduce-{preset}{suffix}")
    output = output or Path(f"results/{preset}")
    if dry_run:
        import json

        rows = {"experiment": experiment, "methods": methods, "sizes": sizes, "seeds": list(range(seeds))}
        folders = {"data": data, "work": str(work), "output": str(output)}
        print(json.dumps({**rows, **folders, "preset": settings.to_dict()}, indent=1))
        return
    from unbottle.cli.models import config_of_model
    from unbottle.experiments.runner import run_experiment
    from unbottle.progress import one_line_warnings

    with one_line_warnings(), progress() as report:
        for name in filter(None, (settings.backbones[size].pretrained for size in sizes)):
            config_of_model(name)  # before data are downloaded and anything is written
        workspace = table.workspace(work, settings, data, progress=report, threads=threads)
        rows_to_run = table.rows(settings, range(seeds), methods=methods, sizes=sizes)
        try:
            results = run_experiment(table, workspace, output / f"{experiment}{variant}{suffix}", rows_to_run)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    show(results.markdown())
    print(f"\nWritten to {results.folder}")
