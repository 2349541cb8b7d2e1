"""unbottle train summarize: fine-tune an encoder-decoder model with another output layer, or train one from nothing."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.options import check_method, check_model, check_place
from unbottle.cli.train_lm import DRY_RUN, document
from unbottle.data.sources import NAMED

EXAMPLES = """
unbottle train summarize --model t5-small --method s+cepr:20 --data samsum --preset paper --output runs/cepr
unbottle train summarize --model t5-small --method s+cepr:20+mi --data xsum --preset paper --output runs/mi
unbottle train summarize --model facebook/bart-large --data pairs.jsonl --text-column chapter --summary-column short
unbottle train summarize --model t5-small --method s+ce --data train.csv --eval-data valid.csv --preset head
unbottle train summarize --model t5-small --data samsum --set accumulate=4 --set precision=bfloat16 --dry-run
"""
RUN = ("model", "config", "tokenizer", "method", "form", "data", "eval_data", "text_column", "summary_column")
FOLDER = "runs/summarize"
HELD_OUT = "validation"  # what hub data sets call it
FRACTIONS = (0.96, 0.98)  # where validation starts and ends, as in train lm


def train_summarize(
    method: Annotated[
        str | None, typer.Option(metavar="METHOD", help="The output layer to attach. [the model's own]")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="How the output layer is parameterised: scaled, or paper, residual, steady. [scaled; paper with a "
            "preset of the paper]",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="A folder or a hub model to start from.")] = None,
    config: Annotated[
        str | None, typer.Option(metavar="JSON", help="From nothing: a config.json, or its content. Needs --tokenizer.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="PATH", help="A tokenizer, for --config.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="cnn_dailymail, xsum, samsum, booksum; a jsonl, csv, parquet, folder, or hub data set.",
        ),
    ] = None,
    eval_data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="For validation. [the validation part of --data, or 2 % of it]",
        ),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column with documents. [that of NAME, or document]")
    ] = None,
    summary_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column with summaries. [that of NAME, or summary]")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="paper, paper-booksum, paper-booksum-bart-large, head, lora, scratch. [paper]",
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option(metavar="WHAT", help="all, head (the model stays as it is), or lora. [all]")
    ] = None,
    lr: Annotated[float | None, typer.Option(metavar="X", help="Learning rate of AdamW. [5e-5]")] = None,
    source_length: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a document, at most. [1024]")
    ] = None,
    target_length: Annotated[int | None, typer.Option(metavar="N", help="Tokens of a summary, at most. [128]")] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Before each document. [what the model's config names, or nothing]"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Pairs of a batch, of all processes together. [8]")
    ] = None,
    epochs: Annotated[float | None, typer.Option(metavar="X", help="Passes over the pairs. [3]")] = None,
    max_steps: Annotated[int | None, typer.Option(metavar="N", help="Steps, instead of --epochs.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of new weights, order and dropout. [0]")] = None,
    report_to: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="tensorboard, wandb, trackio; repeatable. [tensorboard, in DIR/logs]"),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; repeatable. See --dry-run."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option(metavar="YAML", help="All of these in a file; what is on the line goes first.")
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the run. [runs/summarize]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN)] = False,
) -> None:
    """Train an encoder-decoder model on documents and their summaries, with the Seq2SeqTrainer of Hugging Face.

    A run that was killed goes on if it is started again, and ends as if nothing had happened. DIR/model is the
    trained model, for from_pretrained and for unbottle summarize; with --train lora, DIR/adapter is for PEFT. Pairs
    without a document or a summary are left out, and what is too long is cut; both are counted. Several processes:
    torchrun --nproc-per-node 2 -m unbottle train summarize ..., see docs/distributed.md.
    """
    from unbottle.cli.output import config_of, prepare, write_run
    from unbottle.cli.train_options import form_of_preset, from_file, settings_of
    from unbottle.progress import is_first
    from unbottle.train.arguments import SUMMARIZE_PRESETS

    given = {
        "method": method, "form": form, "model": model, "config": config, "tokenizer": tokenizer, "data": data,
        "eval_data": eval_data, "text_column": text_column, "summary_column": summary_column, "preset": preset,
        "train": train, "lr": lr, "source_length": source_length, "target_length": target_length, "prefix": prefix,
        "batch": batch, "epochs": epochs, "max_steps": max_steps, "seed": seed,
        "report_to": tuple(report_to) if report_to else None, "output": output,
    }  # fmt: skip
    told = ({} if config_file is None else from_file(config_file)) | {k: v for k, v in given.items() if v is not None}
    run = {name: told.pop(name, None) for name in RUN}
    run["form"] = run.get("form") or form_of_preset(told)
    settings = settings_of(told, setting or [], SUMMARIZE_PRESETS, FOLDER)
    whole = config_of("train summarize", run | settings.to_dict())
    if dry_run and not run["data"] and not run["config"]:  # to see what can be set
        print(json.dumps(whole, indent=1))
        return
    if bool(run["model"]) == bool(run["config"]):
        raise ValueError("give --model, to start from its weights, or --config, to start from nothing; one of them.")
    if not run["data"]:
        raise ValueError("give --data: cnn_dailymail, xsum, samsum, booksum, a file, a folder, or a hub data set.")
    check_method(run["method"])
    check_model(run["model"])
    for path in filter(None, (run["data"], run["eval_data"])):
        check_place(path, NAMED)
    if dry_run:
        found = {**whole, "estimate": estimated(run, settings)}
        if is_first():
            print(json.dumps(found, indent=1))
        return
    if is_first():
        prepare(Path(settings.output))
    result = execute(run, settings)
    if is_first():
        print(document(result))
        print(f"The model: {result.folder}")
        write_run(Path(settings.output), whole, result.to_dict())


def estimated(run: dict[str, Any], settings: Any) -> dict[str, Any]:
    """Load everything as for training, and say what it would take."""
    from unbottle.cli.train_options import estimate
    from unbottle.progress import one_line_warnings
    from unbottle.train.callbacks import quiet_logging

    with quiet(), one_line_warnings():
        model, _, pairs, valid = loaded(run, settings)
        return estimate(model, pairs, valid, settings)


def loaded(run: dict[str, Any], settings: Any) -> tuple[Any, Any, Any, Any]:
    """Read, load, spell: the model, its tokenizer, pairs to train on and to validate with."""
    from unbottle.cli.models import starting_model
    from unbottle.hf.pretrained import prefix_of

    rows, held_out = data_of(run)
    model, tokenizer = starting_model(run, settings.seed, folder=Path(settings.output), encoder_decoder=True)
    prefix = prefix_of(model) if settings.prefix is None else settings.prefix
    pairs, valid = (spelled(part, tokenizer, settings, prefix) for part in (rows, held_out))
    return model, tokenizer, pairs, valid


def execute(run: dict[str, Any], settings: Any) -> Any:
    """Load and train."""
    from unbottle.progress import one_line_warnings, phases
    from unbottle.train import train_summarize as train
    from unbottle.train.callbacks import quiet_logging

    with quiet(), one_line_warnings(), phases() as report:
        model, tokenizer, pairs, valid = loaded(run, settings)
        name = NAMED[run["data"]].path if run["data"] in NAMED else run["data"]
        result = train(model, pairs, valid, settings, report=report, tokenizer=tokenizer, data_name=name)
    return result


def data_of(run: dict[str, Any]) -> tuple[Any, Any]:
    """Pairs to train on, and to validate with."""
    from unbottle.data import PairSource, read_pairs
    from unbottle.data.sources import Part, parts_of

    columns = {"text_column": run["text_column"], "summary_column": run["summary_column"]}
    parts = parts_of(run["data"], NAMED)
    rows = read_pairs(PairSource(path=parts["train"].path, split=parts["train"].split, **columns))
    held_out = parts.get("valid") if run["eval_data"] is None else Part(run["eval_data"], HELD_OUT)
    if held_out is not None:
        return rows, read_pairs(PairSource(path=held_out.path, split=held_out.split, **columns))
    start, end = (round(len(rows) * fraction) for fraction in FRACTIONS)
    if start == end:
        raise ValueError(f"{run['data']}: {len(rows)} pairs are too few to hold some out for validation: --eval-data.")
    return rows.select(range(start)), rows.select(range(start, end))


def spelled(rows: Any, tokenizer: Any, settings: Any, prefix: str) -> Any:
    """Pairs as tokens; what was cut is told."""
    from unbottle.data import Pairs

    source, target = settings.source_length, settings.target_length
    pairs = Pairs(rows, tokenizer, source_length=source, target_length=target, prefix=prefix)
    for what, count, most in (
        ("documents", pairs.truncated_documents, source),
        ("summaries", pairs.truncated_summaries, target),
    ):
        if count:
            warnings.warn(
                f"{count:,} of {len(pairs):,} {what} are longer than {most} tokens and were cut", stacklevel=2
            )
    return pairs
