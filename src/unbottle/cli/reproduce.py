"""unbottle reproduce: the experiments of the paper, each from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbottle.cli.ending import INTERRUPTED
from unbottle.cli.progress import progress

NAMES = ("table1", "table2", "table3", "table4", "analogy", "size-curve", "order-bias")
EXAMPLES = """
unbottle reproduce table1 --preset cpu --data wikitext-2
unbottle reproduce table1 --preset cpu --data wikitext-2 --seeds 3 --output results/cpu
unbottle reproduce table1 --preset cpu --method softmax+mi --method softmax+c+mi
unbottle reproduce order-bias --preset paper --dry-run
"""


def reproduce(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=f"{', '.join(NAMES)}.")],
    preset: Annotated[
        str, typer.Option(metavar="PRESET", help="cpu: a small GPT-2 trained here; paper: hub models and a GPU; tiny.")
    ] = "cpu",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The text: a file, a folder with train.*, valid.* and test.*, or a hub data set. [the preset's]",
        ),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="METHOD", help="Only these rows; repeatable. [all of the table]")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="How many: 0, 1, ... N - 1.", min=1)] = 1,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for trained models. [runs/reproduce-PRESET]")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results. [results/PRESET]")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads of torch. [all cores]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the preset, do nothing.")] = False,
) -> None:
    """Run every row of a table of the paper and write it beside the paper's own numbers.

    table1: perplexity of fifteen output layers. table2: word-by-word reranker. table3: text completion. table4: next
    words after three prompts. analogy: ambiguous contexts. size-curve: loss against size. order-bias: does the order
    of a list matter? What is done is kept, row by row: the same command goes on where it was stopped.
    """
    from unbottle.recipes.choices import chosen_experiment, chosen_methods, chosen_preset

    what, how = chosen_experiment(experiment), chosen_preset(preset)
    methods = chosen_methods(what, method or ())
    work, output = work or Path(f"runs/reproduce-{how.name}"), output or Path(f"results/{how.name}")
    if dry_run:
        import json

        settings = {"experiment": what.name, "methods": methods, "seeds": list(range(seeds)), "data": data or how.data}
        print(json.dumps(settings | {"work": str(work), "output": str(output), "preset": how.to_dict()}, indent=1))
        return
    if not (data or how.data):
        raise ValueError(f"preset {how.name}: has no text of its own. Name one with --data.")
    execute(what.name, how.name, data or how.data, methods, seeds, work, output, threads)


def execute(
    experiment: str,
    preset: str,
    data: str,
    methods: list[str],
    seeds: int,
    work: Path,
    output: Path,
    threads: int | None,
) -> None:
    """Run, print, write."""
    from unbottle.recipes.choices import chosen_experiment, chosen_preset
    from unbottle.recipes.lab import Lab
    from unbottle.recipes.reproduce import reproduce as run

    what = chosen_experiment(experiment)
    with progress() as report:
        lab = Lab(work, chosen_preset(preset), data, report=report, threads=threads)
        try:
            record = run(what, lab, output, seeds=range(seeds), methods=methods)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    print(record.document())
    print(f"\nWritten to {record.folder}")
