"""unbottle train lm: continue to train a language model with another output layer, or train one from nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.options import MODEL_HELP, TEXT_HELP, check_method, check_model, check_place

DRY_RUN = "Check model and data, print the whole config and what the run would take; train nothing, write nothing."
EXAMPLES = """
unbottle train lm --model smollm2 --method softmax+cpr:20,100+mi --data python --preset head --streaming --max-steps 200
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data wikitext-2 --preset paper --dry-run
unbottle train lm --model gpt2 --method softmax+cpr:20,100+mi --data texts/ --preset head --output runs/head
unbottle train lm --model gpt2 --method ps --data owner/name:config --streaming --max-steps 10000 --output runs/ps
unbottle train lm --config small.json --tokenizer gpt2 --data wiki.txt --preset scratch --output runs/small
unbottle train lm --config-file examples/07_train_lm.yaml --set accumulate=4 --set precision=bfloat16 --dry-run
"""
RUN = ("model", "config", "tokenizer", "method", "form", "data", "eval_data", "text_column", "streaming")


def train_lm(
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
    model: Annotated[str | None, typer.Option(metavar="MODEL", help=MODEL_HELP)] = None,
    config: Annotated[
        str | None, typer.Option(metavar="JSON", help="From nothing: a config.json, or its content. Needs --tokenizer.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="PATH", help="A tokenizer, for --config.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATH", help=TEXT_HELP)] = None,
    eval_data: Annotated[
        str | None, typer.Option(metavar="PATH", help="For validation. [the validation part of --data, or 2 % of it]")
    ] = None,
    text_column: Annotated[str | None, typer.Option(metavar="NAME", help="The column with texts. [text]")] = None,
    streaming: Annotated[
        bool | None, typer.Option("--streaming", help="Read --data as it goes; needs --max-steps.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="paper, paper-medium, head, lora, scratch. [paper]")
    ] = None,
    train: Annotated[
        str | None, typer.Option(metavar="WHAT", help="all, head (the model stays as it is), or lora. [all]")
    ] = None,
    lr: Annotated[float | None, typer.Option(metavar="X", help="Learning rate of AdamW. [1e-5]")] = None,
    length: Annotated[int | None, typer.Option(metavar="N", help="Tokens of a window. [200]")] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Windows of a batch, of all processes together. [4]")
    ] = None,
    epochs: Annotated[float | None, typer.Option(metavar="X", help="Passes over the text. [1]")] = None,
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
    output: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the run. [runs/lm]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN)] = False,
) -> None:
    """Train a language model on a text, with the Trainer of Hugging Face and AdamW.

    A hub data set, or a folder with files train, valid and test, has parts of its own; any other text is split 96/2/2
    into training, validation and test, not shuffled, unless --eval-data is given. A run that was killed goes on if it
    is started again, and ends as if nothing had happened. DIR/model is the trained model, for from_pretrained and for
    unbottle eval; with --train lora, DIR/adapter is for PEFT. Several processes: torchrun --nproc-per-node 2 -m
    unbottle train lm ..., see docs/distributed.md.
    """
    from unbottle.cli.output import config_of, prepare, write_run
    from unbottle.cli.train_options import form_of_preset, from_file, settings_of
    from unbottle.progress import is_first

    given = {
        "method": method, "form": form, "model": model, "config": config, "tokenizer": tokenizer, "data": data,
        "eval_data": eval_data, "text_column": text_column, "streaming": streaming, "preset": preset, "train": train,
        "lr": lr, "length": length, "batch": batch, "epochs": epochs, "max_steps": max_steps, "seed": seed,
        "report_to": tuple(report_to) if report_to else None, "output": output,
    }  # fmt: skip
    told = ({} if config_file is None else from_file(config_file)) | {k: v for k, v in given.items() if v is not None}
    run: dict[str, Any] = {"text_column": "text", "streaming": False}
    run |= {name: told.pop(name) for name in RUN if name in told}
    run["form"] = run.get("form") or form_of_preset(told)
    settings = settings_of(told, setting or [])
    whole = config_of("train lm", {name: run.get(name) for name in RUN} | settings.to_dict())
    if dry_run and not run.get("data") and not run.get("config"):  # to see what can be set
        print(json.dumps(whole, indent=1))
        return
    if bool(run.get("model")) == bool(run.get("config")):
        raise ValueError("give --model, to start from its weights, or --config, to start from nothing; one of them.")
    if not run.get("data"):
        raise ValueError("give --data: a text file, jsonl, csv, parquet, a folder, or a hub data set.")
    check_method(run.get("method"))
    check_model(run.get("model"))
    for path in filter(None, (run["data"], run.get("eval_data"))):
        check_place(path)
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


def execute(run: dict[str, Any], settings: Any) -> Any:
    """Load, cut into windows, train."""
    from unbottle.cli.models import starting_model
    from unbottle.progress import one_line_warnings, phases
    from unbottle.train import train_lm as train
    from unbottle.train.callbacks import quiet_logging

    with quiet(), one_line_warnings(), phases() as report:
        model, tokenizer = starting_model(run, settings.seed, folder=Path(settings.output))
        windows, valid = data_of(run, tokenizer, settings.length)
        result = train(model, windows, valid, settings, report=report, tokenizer=tokenizer, data_name=run["data"])
    return result


def estimated(run: dict[str, Any], settings: Any) -> dict[str, Any]:
    """Load everything as for training, and say what it would take."""
    from unbottle.cli.models import starting_model
    from unbottle.cli.train_options import estimate
    from unbottle.progress import one_line_warnings
    from unbottle.train.callbacks import quiet_logging

    with quiet(), one_line_warnings():
        model, tokenizer = starting_model(run, settings.seed, folder=Path(settings.output))
        windows, valid = data_of(run, tokenizer, settings.length)
        return estimate(model, windows, valid, settings)


def data_of(run: dict[str, Any], tokenizer: Any, length: int) -> tuple[Any, Any]:
    """Windows to train on, and to validate with."""
    from unbottle.data import StreamedWindows, TextSource, Windows, read_texts, split, tokens_of
    from unbottle.data.sources import Part, parts_of

    column, path, other = run["text_column"], run["data"], run.get("eval_data")
    parts = parts_of(path)
    held_out = parts_of(other).get("valid", Part(other)) if other is not None else parts.get("valid")
    train = parts["train"]
    texts = read_texts(TextSource(path=train.path, column=column, split=train.split, streaming=bool(run["streaming"])))
    tokens = None
    if held_out is not None:
        source = TextSource(path=held_out.path, column=column, split=held_out.split)
        tokens = tokens_of(read_texts(source), tokenizer)
    if run["streaming"]:
        return StreamedWindows(texts, tokenizer, length), None if tokens is None else Windows(tokens, length)
    found = tokens_of(texts, tokenizer)
    cut = split(found) if tokens is None else {"train": found, "valid": tokens}
    if len(cut["train"]) < length:
        raise ValueError(f"{path}: {len(cut['train'])} tokens to train on are less than a window of {length} tokens.")
    if len(cut["valid"]) < 2:
        raise ValueError(f"{other or path}: {len(cut['valid'])} tokens for validation. Give more text in --eval-data.")
    return Windows(cut["train"], length, whole=True), Windows(cut["valid"], length)


def document(result: Any) -> str:
    """Before and after, in two lines."""
    lines = [f"{result.steps:,} steps, {result.tokens:,} tokens, {result.tokens_per_second:,.0f} tokens/s"]
    if result.valid_losses:
        losses = [result.valid_losses[0][1], result.valid_losses[-1][1]]
        shown = " -> ".join(f"{loss:.4f}" for loss in losses)
        perplexities = " -> ".join(f"{math.exp(min(loss, 700.0)):.3f}" for loss in losses)
        lines.append(f"Validation: loss {shown}, perplexity {perplexities}")
    return "\n".join(lines)
