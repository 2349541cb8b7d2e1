"""unbottle bench: what an output layer costs, beside the plain softmax of the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unbottle.bench.cases import AXES, DTYPES, MEASURES, SHAPES, BenchSettings, Scale
from unbottle.cli.errors import INTERRUPTED
from unbottle.cli.options import DryRun, check_method
from unbottle.cli.output import config_of, prepare, show
from unbottle.progress import progress

EXAMPLES = """
unbottle bench --shape gpt2
unbottle bench --shape t5-small --measure train --method s+cepr:20 --output runs/t5
unbottle bench --shape gpt2 --measure head --against-dense --no-memory
unbottle bench --shape gpt2 --scale T=128,256,512 --scale k=20,100,500
unbottle bench --shape vocab-152k --length 1024 --measure train --repeats 1
"""
SCALED = ("train",)
DEFAULTS = BenchSettings()


def bench(
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="What to measure beside the plain model; repeatable. [the shape's own]"),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="SHAPE", help=f"{', '.join(SHAPES)}; repeatable. [{', '.join(DEFAULTS.shapes)}]"),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE",
            help=f"{', '.join(MEASURES)}; repeatable; head is all head-... [{', '.join(DEFAULTS.measures)}; "
            f"{', '.join(SCALED)} with --scale]",
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Texts at once. [the shape's own]")] = None,
    length: Annotated[int | None, typer.Option(metavar="N", help="Words of each text. [the shape's own]")] = None,
    source_length: Annotated[
        int | None, typer.Option(metavar="N", help="Words of the encoder input. [the shape's own]")
    ] = None,
    context: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help=f"Words before a decoding step; repeatable. [{', '.join(map(str, DEFAULTS.contexts))}]"
        ),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X=N,N", help=f"Let one size grow, as in T=128,256,512; repeatable. Sizes: {', '.join(AXES)}."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", help="Rounds, after one to warm up.")] = DEFAULTS.repeats,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of torch.")] = DEFAULTS.threads,
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help=f"{', '.join(DTYPES)}.")] = DEFAULTS.dtype,
    against_dense: Annotated[bool, typer.Option("--against-dense", help="Measure the readable path too.")] = False,
    memory: Annotated[bool, typer.Option(help="Measure peak memory, in processes of their own.")] = True,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for bench.md, bench.json and bench.png.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Measure what an output layer costs in time and memory, beside the plain softmax of the same model.

    Models have random weights, nothing is downloaded. Without options it measures what the library promises, and the
    promise stands beside it ("at most"). Ctrl-C prints what was measured so far.
    """
    for name in method or ():
        check_method(name)
    settings = BenchSettings(
        shapes=tuple(shape or DEFAULTS.shapes),
        methods=tuple(method or ()),
        measures=tuple(measure or (SCALED if scale else DEFAULTS.measures)),
        batch=batch,
        length=length,
        source_length=source_length,
        contexts=tuple(context or DEFAULTS.contexts),
        repeats=repeats,
        threads=threads,
        dtype=dtype,
        against_dense=against_dense,
        memory=memory,
        scales=tuple(Scale.parse(text) for text in scale or ()),
    )
    if dry_run:
        print(json.dumps(config_of("bench", settings.to_dict()), indent=1))
        return
    execute(settings, output)


def execute(settings: BenchSettings, output: Path | None) -> None:
    """Measure, print, write."""
    from unbottle.bench.report import document, save
    from unbottle.bench.run import Bench, machine

    prepare(output)
    interrupted = False
    with progress() as report:
        run = Bench(settings, report=report)
        try:
            run.run()
        except KeyboardInterrupt:
            interrupted = True
    found = machine()
    text = document(run.rows, settings, found, interrupted=interrupted)
    show(text)
    if output is not None:
        written = save(output, text, run.rows, settings, found, interrupted=interrupted)
        if not any(path.suffix == ".png" for path in written):
            print("\nNo picture: pip install 'unbottle[bench]'")
        print(f"\nWritten to {output}: {', '.join(path.name for path in written)}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
