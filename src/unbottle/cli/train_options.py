"""Options that the training commands share: every training argument, from the command line, --set and YAML files.

A command lists the options of its data; `training_command` adds all others, those of `unbottle.train.arguments` without
importing transformers. `--learning_rate`, `--learning-rate` and `--lr` are the same option.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from unbottle.cli.options import (
    MODEL_HELP,
    check_choice,
    check_method,
    check_model,
    check_place,
    flag,
    key_values,
    option,
)
from unbottle.cli.output import config_of, end_dry_run, prepare, write_run
from unbottle.progress import is_first, one_line_warnings, phases
from unbottle.train.presets import SHORT_NAMES, Argument, Values, check_values, full_names, known_arguments

if TYPE_CHECKING:
    from torch.utils.data import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from unbottle.eval.generation import Decoding
    from unbottle.train.distributed import Row
    from unbottle.train.run import Result

    Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase, Dataset[Row], Dataset[Row] | None]

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
DEFAULT_PRESET = "paper"
SHOWN = (  # in --help; --help-all shows every argument
    "output_dir", "train_mode", "window_length", "max_source_length", "max_target_length", "source_prefix",
    "batch_size", "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps",
    "learning_rate", "head_lr_multiplier", "lr_scheduler_type", "warmup_steps", "optim", "adam_epsilon",
    "weight_decay", "max_grad_norm", "bf16", "fp16", "gradient_checkpointing", "torch_compile", "logging_steps",
    "eval_steps", "save_steps", "save_total_limit", "report_to", "push_to_hub", "hub_model_id", "seed", "use_cpu",
)  # fmt: skip
ALIASES = {  # short names that commands show
    "output", "train", "length", "source_length", "target_length", "prefix", "batch", "lr", "epochs", "head_lr",
}  # fmt: skip
OWN = {"device": "str", "precision": "str", "shuffle": "bool"}  # short names of several arguments: their kind
MANY = 20  # choices: more are not listed
METAVARS = {"int": "N", "float": "X", "list": "NAME,...", "json": "DICT"}
FORM_HELP = "Parameterization of the output layer: scaled, balanced, paper, residual or steady. [by what is trained]"
DRY_RUN_HELP = (
    "Check model and data, print the configuration and what the run would take, and exit. Nothing is written."
)


def show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]  # of options
        print(context.get_help())
        raise typer.Exit


def text_option(metavar: str, text: str) -> object:
    return Annotated[str | None, option(metavar, text)]


OWN_OPTIONS = {  # of both commands, besides training arguments; each command adds its data
    "method": text_option("METHOD", "Output layer to attach. [that of the model]"),
    "form": text_option("FORM", FORM_HELP),
    "model": text_option("MODEL", MODEL_HELP),
    "config": text_option("JSON", "Train from random weights: a config.json, or its content. Needs --tokenizer."),
    "tokenizer": text_option("PATH", "Tokenizer for --config."),
}
EVAL_DATA = text_option("PATH", "Data for validation. [the validation part of --data, or 2 % of it]")
SOURCES = {  # where other values come from, and what to do with them
    "setting": Annotated[
        list[str] | None, option("KEY=VALUE", "Any argument by name; repeatable, and overrides the others.", "--set")
    ],
    "config_file": Annotated[Path | None, option("YAML", "Options in a file. The command line overrides them.")],
    "dry_run": Annotated[bool, flag("--dry-run", DRY_RUN_HELP)],
    "help_all": Annotated[
        bool, flag("--help-all", "Show all training arguments and exit.", callback=show_all, is_eager=True)
    ],
}


class TrainingCommand(TyperCommand):
    """A command whose options may be spelled with - or _, and whose flags may have a value, as HfArgumentParser has it:
    `--bf16`, `--bf16 True` and `--no_bf16`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        known: dict[str, str] = {}
        negated: dict[str, str] = {}
        for parameter in self.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                known[name.replace("-", "_")] = name
            if parameter.secondary_opts:
                negated |= dict.fromkeys(parameter.opts, parameter.secondary_opts[0])
        words: list[str] = []
        for arg in args:
            if words and words[-1] in negated and arg.lower() in TRUTHS:
                words[-1] = words[-1] if TRUTHS[arg.lower()] else negated[words[-1]]
                continue
            name, equals, value = arg.partition("=")
            spelled = known.get(name.replace("-", "_"), name) if arg.startswith("--") else arg
            if spelled in negated and equals and value.lower() in TRUTHS:
                words.append(spelled if TRUTHS[value.lower()] else negated[spelled])
            else:
                words.append(f"{spelled}{equals}{value}" if arg.startswith("--") else arg)
        return super().parse_args(ctx, words)

    def format_options(self, ctx: typer.Context, formatter: object) -> None:  # type: ignore[override]
        """Plain text in groups; a terminal gets them as panels."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                title = getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):  # type: ignore[attr-defined]
                formatter.write_dl(records)  # type: ignore[attr-defined]


def training_command(
    task: str, presets: Mapping[str, Values], data_options: Mapping[str, object]
) -> Callable[[Callable[[TrainingOptions, bool], None]], Callable[..., None]]:
    """Make a command of a function that takes what was asked for, and whether only to say what it would do.

    Its options are those of all training commands, `data_options`, and the training arguments of the task.
    """
    known = known_arguments(task)
    ordered = [*(known[name] for name in SHOWN if name in known), *(f for f in known.values() if f.name not in SHOWN)]
    own = {**OWN_OPTIONS, **data_options, "eval_data": EVAL_DATA}
    preset = {"preset": text_option("PRESET", f"{', '.join(presets)}. [{DEFAULT_PRESET}]")}
    annotations = {**own, **preset, **SOURCES, **{field.name: _option(field) for field in ordered}}

    def decorate(command: Callable[[TrainingOptions, bool], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            arguments = {field.name: value for field in ordered if (value := values[field.name]) is not None}
            named = {name: values[name] for name in own}
            pairs = values["setting"] or []
            options = training_options(task, named, values["preset"], presets, values["config_file"], arguments, pairs)
            command(options, values["dry_run"])

        parameters = []
        for name, annotation in annotations.items():
            default = False if name in ("dry_run", "help_all") else None
            parameters.append(inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=annotation))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.command_class = TrainingCommand  # type: ignore[attr-defined]
        return run

    return decorate


def _option(field: Argument) -> object:
    """The typer option of an argument. Values are parsed as those of files are, by `parse`."""
    short = [f"--{name.replace('_', '-')}" for name in ALIASES if SHORT_NAMES[name] == field.name]
    names = [*short, f"--{field.name}"]
    text = f"{field.help} One of {', '.join(field.choices)}." if 0 < len(field.choices) < MANY else field.help
    if field.default not in (None, "", [], False, 0) and "[" not in text:
        text += f" [{field.default}]"
    metavar = "DIR" if field.name == "output_dir" else METAVARS.get(field.kind, "TEXT")
    shown = {"hidden": field.name not in SHOWN, "rich_help_panel": field.group}
    if field.kind == "bool":
        return Annotated[bool | None, flag(f"--{field.name}/--no_{field.name}", text, **shown)]
    kind = list[str] | None if field.kind == "list" else str | None
    return Annotated[kind, option(metavar, text, *names, **shown)]


# -- values


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What a training command was asked for: its own options, and training arguments by their full names."""

    task: str
    own: dict[str, Any]  # text, or None; bool for flags
    values: Values
    defaults: Values

    def to_dict(self) -> dict[str, object]:
        """What --dry-run shows and config.json stores: usual arguments, and all that were set."""
        usual = {name: self.defaults[name] for name in SHOWN if name in self.defaults}
        return {**self.own, **usual, **self.values}


def training_options(
    task: str,
    own: Mapping[str, object],
    preset: str | None,
    presets: Mapping[str, Values],
    config_file: Path | None,
    arguments: Mapping[str, object],
    pairs: Sequence[str],
) -> TrainingOptions:
    """Combine a preset, a file, the command line, and --set, each of which overrides the ones before."""
    known = known_arguments(task)
    file = {} if config_file is None else read_config_file(config_file)
    chosen = {name: file.pop(name, None) if value is None else value for name, value in own.items()}
    chosen = {name: value if value is None or isinstance(value, bool) else str(value) for name, value in chosen.items()}
    in_file = file.pop("preset", None)
    named = in_file if preset is None else preset
    check_choice("preset", name := DEFAULT_PRESET if named is None else str(named), presets)
    values: Values = {"output_dir": f"runs/{task}", **presets[str(name)]}
    for source in (file, arguments, dict(key_values(pairs))):
        for key, raw in source.items():
            values |= parse(key, raw, known)
    check_values(values)
    if chosen["form"] is None and str(named or "").startswith("paper"):
        chosen["form"] = "paper"  # presets of the paper, asked for by name, come with the paper's form
    defaults = {field.name: field.default for field in known.values()}
    return TrainingOptions(task=task, own=chosen, values=values, defaults=defaults)


def parse(name: str, raw: object, known: Mapping[str, Argument]) -> Values:
    """A value from a file or command line, with the type and the full name of its argument."""
    field = known.get(SHORT_NAMES.get(name, name))
    if field is None and name not in OWN:
        names = [*known, *(short for short, full in SHORT_NAMES.items() if full in known), *OWN]
        close = get_close_matches(name, names, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"argument {name!r}: unknown.{hint} --help-all shows all arguments.")
    kind = OWN.get(name) or (field.kind if field else "str")
    optional = name in ("eval_every", "save_every", "max_steps") or (field is not None and field.optional)
    value = convert(name, raw, kind, optional=optional)
    if field is not None and field.choices and value is not None and name != "schedule":
        check_choice(name, value, field.choices)
    return full_names({name: value})


def convert(name: str, raw: object, kind: str, *, optional: bool) -> object:
    """A value from a file or command line as the kind of its argument."""
    text = ",".join(map(str, raw)) if isinstance(raw, (list, tuple)) else str(raw).strip()
    if raw is None or (text.lower() == "none" and kind != "list" and (optional or kind != "str")):
        if optional:
            return None
        raise ValueError(f"{name}: it cannot be none; give a value.")
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind == "bool":
        if text.lower() not in TRUTHS:
            raise ValueError(f"{name} {text!r}: give true or false.")
        return TRUTHS[text.lower()]
    if kind in ("str", "json"):
        return raw if isinstance(raw, (str, dict)) else text  # not stripped: a prefix ends with a space
    try:
        return int(text)
    except ValueError:
        try:
            if kind == "float":
                return float(text)
        except ValueError:
            pass
    raise ValueError(f"{name} {text!r}: give {'a whole number' if kind == 'int' else 'a number'}.")


def replace_fields(settings: Decoding, changes: Mapping[str, object]) -> Decoding:
    """Settings with other values, as a command line spells them."""
    types = {field.name: str(field.type) for field in fields(settings)}
    for name in changes:
        if name not in types:
            raise ValueError(f"setting {name!r}: unknown. Known: {', '.join(types)}.")
    values: dict[str, Any] = {
        name: convert(name, value, types[name].split(" ")[0], optional="None" in types[name])
        for name, value in changes.items()
    }
    return replace(settings, **values)


def read_config_file(path: Path) -> dict[str, object]:
    """The options in a YAML file (JSON is YAML too), by name."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Without aliases: a few lines of them stand for more values than any memory holds."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                name = self.peek_event().anchor
                raise ValueError(f"the alias *{name}: write the value itself, no alias is allowed here")
            return super().compose_node(parent, index)

    try:
        options = Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # dates, nested too deep
        raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path}: expected lines of name: value, as in 'learning_rate: 1e-5'.")
    return {str(name).replace("-", "_"): value for name, value in options.items()}


# -- the work


def run_training(
    options: TrainingOptions,
    load: Callable[[TrainingOptions, Any], Loaded],
    *,
    data_name: str | None,
    known_data: Mapping[str, object] | None = None,
    dry_run: bool,
) -> None:
    """Check options, load model and data, train, and write config.json and result.json; or print what it would do."""
    own, config = options.own, config_of(f"train {options.task}", options.to_dict())
    if dry_run and not own["data"] and not own["config"]:  # to see what can be set
        end_dry_run(config)
    if bool(own["model"]) == bool(own["config"]):
        raise ValueError("give --model, to start from its weights, or --config, for random weights; one of them.")
    if not own["data"]:
        known = "".join(f"{name}, " for name in known_data or ())
        raise ValueError(f"give --data: {known}a file (txt, jsonl, csv, parquet), a folder, or a hub data set.")
    check_method(own["method"])
    check_model(own["model"])
    for place in (own["data"], own["eval_data"]):
        if place is not None:
            check_place(place, *([] if known_data is None else [known_data]))
    if is_first() and not dry_run:
        prepare(Path(str(options.values["output_dir"])))

    from unbottle.train.arguments import LMTrainingArguments, SummarizeTrainingArguments
    from unbottle.train.callbacks import quiet_logging
    from unbottle.train.estimate import estimate
    from unbottle.train.run import train_lm, train_summarize

    arguments: Any
    train: Any
    arguments, train = {
        "lm": (LMTrainingArguments, train_lm),
        "summarize": (SummarizeTrainingArguments, train_summarize),
    }[options.task]
    with quiet_logging(), one_line_warnings(), phases() as report:
        args = arguments.from_values(options.values)
        model, tokenizer, rows, valid = load(options, args)
        if dry_run:
            config["estimate"] = estimate(model, rows, valid, args)
        else:
            result = train(model, rows, valid, args, report=report, tokenizer=tokenizer, data_name=data_name)
    if not is_first():
        return
    if dry_run:
        end_dry_run(config)
    print(summary(result))
    print(f"The model: {result.folder}")
    write_run(Path(str(args.output_dir)), config, result.to_dict())


def summary(result: Result) -> str:
    """Steps and speed, and the validation loss before and after."""
    lines = [f"{result.steps:,} steps, {result.tokens:,} tokens, {result.tokens_per_second:,.0f} tokens/s"]
    if result.valid_losses:
        losses = [result.valid_losses[0][1], result.valid_losses[-1][1]]
        shown = " -> ".join(f"{loss:.4f}" for loss in losses)
        perplexities = " -> ".join(f"{math.exp(min(loss, 700.0)):.3f}" for loss in losses)
        lines.append(f"Validation: loss {shown}, perplexity {perplexities}")
    return "\n".join(lines)
