"""The program `unbottle`. A new command is a module with a function, and one row in COMMANDS.

A name of two words is a command of a group, `unbottle eval perplexity`, and a group has one row in GROUPS.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from unbottle.cli import (
    app,
    bench,
    demo,
    doctor,
    eval_summaries,
    eval_tasks,
    eval_text,
    experiments,
    generate,
    methods,
    train,
)
from unbottle.cli.errors import OK, REFUSED, ending
from unbottle.cli.options import flag, key_values, option
from unbottle.cli.output import is_terminal
from unbottle.progress import processes

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {  # name: function, examples
    "demo": (demo.demo, demo.EXAMPLES),
    "methods": (methods.methods, methods.EXAMPLES),
    "doctor": (doctor.doctor, doctor.EXAMPLES),
    "generate": (generate.generate, generate.EXAMPLES),
    "app": (app.app, app.EXAMPLES),
    "bench": (bench.bench, bench.EXAMPLES),
    "report": (experiments.report, experiments.REPORT_EXAMPLES),
    "reproduce": (experiments.reproduce, experiments.REPRODUCE_EXAMPLES),
    "compare": (experiments.compare, experiments.COMPARE_EXAMPLES),
    "summarize": (generate.summarize, generate.SUMMARIZE_EXAMPLES),
    "train lm": (train.train_lm, train.LM_EXAMPLES),
    "train summarize": (train.train_summarize, train.SUMMARIZE_EXAMPLES),
    "eval perplexity": (eval_text.eval_perplexity, eval_text.PERPLEXITY_EXAMPLES),
    "eval completion": (eval_text.eval_completion, eval_text.COMPLETION_EXAMPLES),
    "eval lm-eval": (eval_tasks.eval_lm_eval, eval_tasks.LM_EVAL_EXAMPLES),
    "eval analogy": (eval_tasks.eval_analogy, eval_tasks.ANALOGY_EXAMPLES),
    "eval probe": (eval_tasks.eval_probe, eval_tasks.PROBE_EXAMPLES),
    "eval summaries": (eval_summaries.eval_summaries, eval_summaries.EXAMPLES),
}
GROUPS = {  # name: help
    "eval": "Measure what a model predicts and generates.",
    "train": "Train a model with a better output layer.",
}
EXAMPLES = """
unbottle demo --quick
unbottle doctor
unbottle methods softmax+cpr:20,100+mi
unbottle train lm --help
python -m unbottle --version
"""
DISTRIBUTED = ("train",)  # commands that torchrun or accelerate may start as several processes
RESUMES = ("demo", "reproduce", "compare", "train lm", "train summarize")
RESUMES_FILES = ("generate", "summarize", "eval completion", "eval summaries")  # with --output
DEBUG = "--debug"
Value = TypeVar("Value")

SHARED = ("config_file", "setting")
RENAMED = {"column": "text_column", "new_tokens": "max_new_tokens", "max_length": "max_new_tokens"}  # old: new


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --config-file and --set, unless it has them itself, for options that are not on the line.

    Options on the command line come first, then --set, then the file.
    """
    file = option("YAML", "Options in a file, as name: value.", callback=read_file, is_eager=True)
    pairs = option("KEY=VALUE", "Any option, by its name; repeatable.", "--set", callback=read_pairs, is_eager=True)
    annotations = {"config_file": Annotated[Path | None, file], "setting": Annotated[list[str] | None, pairs]}
    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
        if name not in signature.parameters
    ]
    names = {parameter.name for parameter in added}

    @functools.wraps(command)
    def run(**values: object) -> None:
        command(**{name: value for name, value in values.items() if name not in names})

    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]} | {"return": None}
    return run


def read_file(context: typer.Context, path: Path | None) -> Path | None:
    """Defaults from a YAML file, below those of --set."""
    from unbottle.cli.train_options import read_config_file

    if path is not None:
        several = repeatable(context)
        values = {
            name: [value] if name in several and not isinstance(value, list) else value
            for name, value in by_parameter(context, read_config_file(path), str(path)).items()
        }
        context.default_map = {**values, **(context.default_map or {})}
    return path


def read_pairs(context: typer.Context, pairs: Sequence[str] | None) -> Sequence[str] | None:
    """Defaults from KEY=VALUE. Of a repeated key all values count if the option is repeatable, else the last one."""
    values: dict[str, list[str]] = {}
    for name, value in key_values(pairs or ()):
        values.setdefault(name, []).append(value)
    several = repeatable(context)
    defaults = {
        name: all_values if name in several else all_values[-1]
        for name, all_values in by_parameter(context, values, "--set").items()
    }
    context.default_map = {**(context.default_map or {}), **defaults}
    return pairs


def by_parameter(context: typer.Context, values: Mapping[str, Value], source: str) -> dict[str, Value]:
    """Values of options by the names of the function's parameters; ValueError for unknown options."""
    parameters = {
        max(parameter.opts, key=len).lstrip("-").replace("-", "_"): str(parameter.name)
        for parameter in context.command.params
        if parameter.param_type_name == "option" and parameter.name not in (*SHARED, "help")
    }
    values = {name if name in parameters else RENAMED.get(name, name): value for name, value in values.items()}
    for name in values:
        if name not in parameters:
            raise ValueError(f"{source}: unknown option {name!r}. Known: {', '.join(parameters)}.")
    return {parameters[name]: value for name, value in values.items()}


def repeatable(context: typer.Context) -> set[str]:
    """The parameters that take several values."""
    return {str(parameter.name) for parameter in context.command.params if getattr(parameter, "multiple", False)}


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    arguments = list(sys.argv[1:] if args is None else args)
    debug = DEBUG in arguments  # anywhere: it is usually added at the end of a line that failed
    line = [current_name(arg) for arg in arguments if arg != DEBUG]
    with ending(debug=debug, resumes=resumes(line)) as end:
        result = program()(args=line, prog_name="unbottle", standalone_mode=False)
        end.code = result if isinstance(result, int) else end.code
    return end.code


def current_name(arg: str) -> str:
    """The argument, with the new name of an option that was renamed."""
    name, equals, value = arg.partition("=")
    known = RENAMED.get(name.removeprefix("--").replace("-", "_")) if name.startswith("--") else None
    return arg if known is None else f"--{known.replace('_', '-')}{equals}{value}"


def resumes(line: Sequence[str]) -> bool:
    """Whether running the same command line again resumes an interrupted run."""
    name = next((name for name in COMMANDS if [*line[: len(name.split())]] == name.split()), "")
    return name in RESUMES or (name in RESUMES_FILES and any(arg.startswith("--output") for arg in line))


def program() -> typer.Typer:
    """All commands; their help is formatted on a terminal and plain text elsewhere."""
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
    look: Any = {"rich_markup_mode": "markdown" if is_terminal() else None}
    root = typer.Typer(
        add_completion=False,
        **look,
        context_settings=settings,
        epilog=paragraph(EXAMPLES),
    )
    root.callback(invoke_without_command=True)(top)
    groups: dict[str, typer.Typer] = {}
    for names, (command, examples) in COMMANDS.items():
        *group, name = names.split()
        parent = root
        if group:
            if group[0] not in groups:
                groups[group[0]] = typer.Typer(help=GROUPS[group[0]], **look, context_settings=settings)
                root.add_typer(groups[group[0]], name=group[0])
            parent = groups[group[0]]
        shown: dict[str, Any] = {"epilog": paragraph(examples), "short_help": summary(command)}
        kind = getattr(command, "command_class", None)
        parent.command(name, cls=kind, **shown, context_settings=settings)(with_shared_options(command))
        if group and len(parent.registered_commands) == 1:
            parent.callback()(lambda: None)  # a group of one command is still a group
    return root


def top(
    context: typer.Context,
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
    debug: Annotated[bool, flag(DEBUG, "Show the traceback of an error, not just its message.")] = False,
) -> None:
    """A better output layer for any Hugging Face language model.

    Exit codes: 0 success, 1 failure, 2 invalid options, files or methods, 75 training stopped by SIGTERM (rerun the
    same command to resume), 130 interrupted. NO_COLOR is respected; output that does not go to a terminal is plain.
    """
    del debug  # handled by main
    if version:
        print(f"unbottle {importlib.metadata.version('unbottle')}")
        raise typer.Exit(OK)
    if processes() > 1 and context.invoked_subcommand not in (None, *DISTRIBUTED):
        raise ValueError(
            f"unbottle {context.invoked_subcommand} runs as one process, and {processes()} were started. Start it "
            "without torchrun or accelerate launch."
        )
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(REFUSED)


def summary(command: Callable[..., None]) -> str:
    """The first paragraph of a command's help in full, which click would truncate."""
    return " ".join((command.__doc__ or "").strip().partition("\n\n")[0].split())


def paragraph(examples: str) -> str:
    """Examples, line by line."""
    if is_terminal():  # rich keeps a line break only at a blank line
        return "\n\n".join(["Examples:", *(f"    {line}" for line in examples.strip().splitlines())])
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
