"""unbottle bench: time and memory of output layers beside the plain softmax of the same model."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.bench.cases import (
    AXES,
    DEVICES,
    DTYPES,
    MEASURES,
    PRESETS,
    SHAPES,
    BenchSettings,
    Scale,
    check_known,
    plan_goals,
)
from unbottle.cli.errors import INTERRUPTED
from unbottle.cli.options import DryRun, check_method, flag, option
from unbottle.cli.output import config_of, prepare, show
from unbottle.progress import progress

if TYPE_CHECKING:
    from unbottle.bench.engine import EngineSettings

EXAMPLES = """
unbottle bench --shape gpt2
unbottle bench --preset goals --output runs/goals
unbottle bench --preset paper --shape gpt2-medium
unbottle bench --shape gpt2 --device cuda --dtype bfloat16 --output runs/gpu
unbottle bench --shape t5-small --measure train --method s+cepr:20 --output runs/t5
unbottle bench --shape gpt2 --measure head --against-dense --no-memory
unbottle bench --shape gpt2 --scale T=128,256,512 --scale k=20,100,500
unbottle bench --shape vocab-152k --length 1024 --measure train --repeats 1
unbottle bench --engine vllm --shape smollm2-135m --batch 8
"""
SCALED = ("train",)
DEFAULTS = BenchSettings()
MEASURE_HELP = (
    f"{', '.join(MEASURES)}; repeatable; head is all head-... [{', '.join(DEFAULTS.measures)}; {', '.join(SCALED)} "
    "with --scale]"
)


def bench(
    preset: Annotated[
        str | None,
        option(
            "PRESET",
            "goals: the cases for which the library has goals. paper: the methods of the paper's tables for "
            "--shape (gpt2, gpt2-medium, t5-small, t5-base, bart-base, bart-large), beside its times.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None, option("METHOD", "Method to measure; repeatable. [depends on the shape]")
    ] = None,
    shape: Annotated[
        list[str] | None, option("SHAPE", f"{', '.join(SHAPES)}; repeatable. [{', '.join(DEFAULTS.shapes)}]")
    ] = None,
    measure: Annotated[list[str] | None, option("MEASURE", MEASURE_HELP)] = None,
    batch: Annotated[int | None, option("N", "Batch size. [depends on the shape]")] = None,
    length: Annotated[int | None, option("N", "Sequence length. [depends on the shape]")] = None,
    source_length: Annotated[int | None, option("N", "Length of the encoder input. [depends on the shape]")] = None,
    context: Annotated[
        list[int] | None,
        option("N", f"Context length of decoding; repeatable. [{', '.join(map(str, DEFAULTS.contexts))}]"),
    ] = None,
    scale: Annotated[
        list[str] | None,
        option("X=N,N", f"Vary one size, as in T=128,256,512; repeatable. Sizes: {', '.join(AXES)}."),
    ] = None,
    repeats: Annotated[int, option("N", "Timed rounds, after one warm-up.")] = DEFAULTS.repeats,
    threads: Annotated[int, option("N", "Number of torch threads.")] = DEFAULTS.threads,
    dtype: Annotated[str, option("DTYPE", f"{', '.join(DTYPES)}.")] = DEFAULTS.dtype,
    autocast: Annotated[bool, flag("--autocast", "Keep float32 weights and compute under bfloat16 autocast.")] = False,
    compile: Annotated[bool, flag("--compile", "Compile the models with torch.compile.")] = False,
    device: Annotated[str, option("DEVICE", f"{', '.join(DEVICES)}.")] = DEFAULTS.device,
    against_dense: Annotated[bool, flag("--against-dense", "Also measure the dense path.")] = False,
    memory: Annotated[bool, option(None, "Measure peak memory, in separate processes.")] = True,
    output: Annotated[Path | None, option("DIR", "Folder for bench.md, bench.json and bench.png.")] = None,
    engine: Annotated[
        str | None, option("ENGINE", "vllm: tokens per second of --shape with --method under this engine.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Measure time and memory of output layers beside the plain softmax of the same model.

    Models have random weights; nothing is downloaded. Where the library has a goal, the tables show it, and say
    "missed" if it is. Ctrl-C prints what was measured so far; rerun the same command with the same --output to resume.
    """
    if preset is not None:
        check_known("preset", preset, PRESETS)
        sizes = {"batch": batch, "length": length, "source-length": source_length, "context": context, "scale": scale}
        chosen = {"method": method, **sizes, **({"shape": shape, "measure": measure} if preset == "goals" else {})}
        if fixed := [f"--{name}" for name, value in chosen.items() if value]:
            raise ValueError(f"preset {preset} fixes methods and sizes: leave out {', '.join(fixed)}.")
    check_method(*(method or ()))
    if engine is not None:
        from unbottle.bench.engine import ENGINES, EngineSettings

        check_known("engine", engine, ENGINES)
        usual = EngineSettings()
        asked = EngineSettings(
            shape=shape[0] if shape else usual.shape,
            methods=tuple(method or usual.methods),
            batches=(batch,) if batch else usual.batches,
            repeats=repeats,
            threads=threads,
        )
        config_of("bench", {"engine": engine, **asdict(asked)}, dry_run=dry_run)
        execute_engine(asked, output)
        return
    baseline = DEFAULTS.baseline
    if preset == "paper":
        shape, measure, memory = shape or ["gpt2"], measure or ["forward"], False
        baseline, *method = paper_methods(shape)
    settings = BenchSettings(
        preset=preset, batch=batch, length=length, source_length=source_length, repeats=repeats, threads=threads,
        dtype=dtype, autocast=autocast, compile=compile, device=device, baseline=baseline,
        against_dense=against_dense, memory=memory,
        shapes=tuple(shape or DEFAULTS.shapes),
        methods=tuple(method or ()),
        measures=tuple(measure or (SCALED if scale else DEFAULTS.measures)),
        contexts=tuple(context or DEFAULTS.contexts),
        scales=tuple(Scale.parse(text) for text in scale or ()),
    )  # fmt: skip
    config_of("bench", settings.to_dict(), dry_run=dry_run)
    execute(settings, output)


def execute_engine(settings: EngineSettings, output: Path | None) -> None:
    """Measure throughput under an engine, print, write."""
    from unbottle.bench.engine import measure, save, table

    if importlib.util.find_spec("vllm") is None:
        raise ValueError("engine vllm: not installed. Get it with: pip install 'unbottle[vllm]'")
    prepare(output)
    rows = []
    for row in measure(settings):
        rows.append(row)
        if output is not None:
            save(output, rows, settings)
    show(table(rows).markdown())


def paper_times() -> dict[str, dict[str, float]]:
    """The times in the paper's tables, of batches of 4 or, of summaries, 8: shape -> method -> milliseconds."""
    from unbottle.experiments.paper import ANY, MEDIUM, PERPLEXITY, SMALL, SUMMARIES

    summaries = {name.lower().replace(" ", "-"): table for name, table in SUMMARIES["samsum"].items()}
    tables = {"gpt2": PERPLEXITY[ANY][SMALL], "gpt2-medium": PERPLEXITY[ANY][MEDIUM], **summaries}
    return {shape: {method: row["Time"] for method, row in table.items()} for shape, table in tables.items()}


def paper_methods(shapes: list[str]) -> list[str]:
    times = paper_times()
    for name in shapes:
        check_known("shape of the paper's tables", name, tuple(times))
        if [*times[name]] != [*times[shapes[0]]]:
            raise ValueError(f"preset paper: {shapes[0]} and {name} have different methods. Measure them one by one.")
    return [*times[shapes[0]]]


def paper_ratios(baseline: str) -> dict[tuple[str, str], float]:
    return {
        (shape, method): time / times[baseline]
        for shape, times in paper_times().items()
        for method, time in times.items()
    }


def execute(settings: BenchSettings, output: Path | None) -> None:
    """Measure, print, write."""
    import torch

    from unbottle.bench.report import document, interrupted_rows, save, save_rows
    from unbottle.bench.run import Bench, machine

    if settings.on_gpu and not torch.cuda.is_available():
        raise ValueError(f"device {settings.device}: torch finds no GPU here. Use --device cpu.")
    prepare(output)
    hardware = machine(settings.device)
    interrupted = True

    def checkpoint() -> None:
        if output is not None:
            save_rows(output, run.rows, settings, hardware, interrupted=True)

    with progress() as report:
        run = Bench(
            settings,
            report=report,
            groups=plan_goals() if settings.preset == "goals" else None,
            saved=() if output is None else interrupted_rows(output, settings, hardware),
            checkpoint=checkpoint,
            paper=paper_ratios(settings.baseline) if settings.preset == "paper" else None,
        )
        try:
            run.run()
            interrupted = False
        except KeyboardInterrupt:
            pass
    show(document(run.rows, settings, hardware, interrupted=interrupted))
    if output is not None:
        written = save(output, run.rows, settings, hardware, interrupted=interrupted)
        if not any(path.suffix == ".png" for path in written):
            print("\nNo picture: pip install 'unbottle[bench]'")
        print(f"\nWritten to {output}: {', '.join(path.name for path in written)}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
