"""unbottle bench: time and memory of output layers beside the plain softmax of the same model."""

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
unbottle bench --engine vllm --shape smollm2-135m --batch 8
"""
SCALED = ("train",)
DEFAULTS = BenchSettings()


def bench(
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Method to measure; repeatable. [depends on the shape]"),
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
    batch: Annotated[int | None, typer.Option(metavar="N", help="Batch size. [depends on the shape]")] = None,
    length: Annotated[int | None, typer.Option(metavar="N", help="Sequence length. [depends on the shape]")] = None,
    source_length: Annotated[
        int | None, typer.Option(metavar="N", help="Length of the encoder input. [depends on the shape]")
    ] = None,
    context: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help=f"Context length of decoding; repeatable. [{', '.join(map(str, DEFAULTS.contexts))}]",
        ),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X=N,N", help=f"Vary one size, as in T=128,256,512; repeatable. Sizes: {', '.join(AXES)}."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", help="Timed rounds, after one warm-up.")] = DEFAULTS.repeats,
    threads: Annotated[int, typer.Option(metavar="N", help="Number of torch threads.")] = DEFAULTS.threads,
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help=f"{', '.join(DTYPES)}.")] = DEFAULTS.dtype,
    against_dense: Annotated[bool, typer.Option("--against-dense", help="Also measure the dense path.")] = False,
    memory: Annotated[bool, typer.Option(help="Measure peak memory, in separate processes.")] = True,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for bench.md, bench.json and bench.png.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="vllm: tokens per second of --shape with --method under this engine."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Measure time and memory of output layers beside the plain softmax of the same model.

    Models have random weights; nothing is downloaded. Without options, the sizes are those for which the library
    promises limits, which the tables list as "at most". Ctrl-C prints what was measured so far.
    """
    for name in method or ():
        check_method(name)
    if engine is not None:
        execute_engine(engine, shape, method, batch, repeats, threads, output)
        return
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


def execute_engine(
    engine: str, shape: list[str] | None, method: list[str] | None, batch: int | None, repeats: int, threads: int,
    output: Path | None,
) -> None:  # fmt: skip
    """Measure throughput under an engine, print, write."""
    from unbottle.bench.cases import check_known
    from unbottle.bench.engine import ENGINES, EngineSettings, measure, save, table

    check_known("engine", engine, ENGINES)
    usual = EngineSettings()
    settings = EngineSettings(
        shape=shape[0] if shape else usual.shape,
        methods=tuple(method or usual.methods),
        batches=(batch,) if batch else usual.batches,
        repeats=repeats,
        threads=threads,
    )
    prepare(output)
    rows = []
    for row in measure(settings):
        rows.append(row)
        if output is not None:
            save(output, rows, settings)
    show(table(rows).markdown())


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
    hardware = machine()
    text = document(run.rows, settings, hardware, interrupted=interrupted)
    show(text)
    if output is not None:
        written = save(output, text, run.rows, settings, hardware, interrupted=interrupted)
        if not any(path.suffix == ".png" for path in written):
            print("\nNo picture: pip install 'unbottle[bench]'")
        print(f"\nWritten to {output}: {', '.join(path.name for path in written)}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
