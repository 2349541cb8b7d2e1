"""--set and --config-file for every command that has no such option of its own.

The program `unbottle`. A new command is one file with one function, and one line in COMMANDS.

A name of two words is a command of a group: `unbottle eval perplexity`. A group has one line in GROUPS.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.app import EXAMPLES as APP_EXAMPLES
from unbottle.cli.app import app
from unbottle.cli.bench import EXAMPLES as BENCH_EXAMPLES
from unbottle.cli.bench import bench
from unbottle.cli.compare import EXAMPLES as COMPARE_EXAMPLES
from unbottle.cli.compare import compare
from unbottle.cli.demo import EXAMPLES as DEMO_EXAMPLES
from unbottle.cli.demo import demo
from unbottle.cli.doctor import EXAMPLES as DOCTOR_EXAMPLES
from unbottle.cli.doctor import doctor
from unbottle.cli.errors import OK, REFUSED, ending
from unbottle.cli.eval_analogy import EXAMPLES as EVAL_ANALOGY_EXAMPLES
from unbottle.cli.eval_analogy import eval_analogy
from unbottle.cli.eval_completion import EXAMPLES as EVAL_COMPLETION_EXAMPLES
from unbottle.cli.eval_completion import eval_completion
from unbottle.cli.eval_lm_eval import EXAMPLES as EVAL_LM_EVAL_EXAMPLES
from unbottle.cli.eval_lm_eval import eval_lm_eval
from unbottle.cli.eval_perplexity import EXAMPLES as EVAL_PERPLEXITY_EXAMPLES
from unbottle.cli.eval_perplexity import eval_perplexity
from unbottle.cli.eval_probe import EXAMPLES as EVAL_PROBE_EXAMPLES
from unbottle.cli.eval_probe import eval_probe
from unbottle.cli.eval_summaries import EXAMPLES as EVAL_SUMMARIES_EXAMPLES
from unbottle.cli.eval_summaries import eval_summaries
from unbottle.cli.generate import EXAMPLES as GENERATE_EXAMPLES
from unbottle.cli.generate import SUMMARIZE_EXAMPLES, generate, summarize
from unbottle.cli.methods import EXAMPLES as METHODS_EXAMPLES
from unbottle.cli.methods import methods
from unbottle.cli.output import is_terminal
from unbottle.cli.report import EXAMPLES as REPORT_EXAMPLES
from unbottle.cli.report import report
from unbottle.cli.reproduce import EXAMPLES as REPRODUCE_EXAMPLES
from unbottle.cli.reproduce import reproduce
from unbottle.cli.train_lm import EXAMPLES as TRAIN_LM_EXAMPLES
from unbottle.cli.train_lm import train_lm
from unbottle.cli.train_summarize import EXAMPLES as TRAIN_SUMMARIZE_EXAMPLES
from unbottle.cli.train_summarize import train_summarize
from unbottle.progress import processes

SHARED = ("config_file", "setting")
FORMER = {"column": "text_column", "new_tokens": "max_new_tokens", "max_length": "max_new_tokens"}  # accepted still


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with options that set other options: what is on the line counts first, then --set, then the file.

    One that it has already stays its own.
    """
    file = typer.Option(metavar="YAML", help="Options in a file, as name: value.", callback=read_file, is_eager=True)
    pairs = typer.Option(
        "--set", metavar="KEY=VALUE", help="Any option, by its name; repeatable.", callback=read_pairs, is_eager=True
    )
    annotations = {"config_file": Annotated[Path | None, file], "setting": Annotated[list[str] | None, pairs]}
    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
        if name not in signature.parameters
    ]
    names = {each.name for each in added}

    @functools.wraps(command)
    def run(**values: Any) -> None:
        command(**{name: value for name, value in values.items() if name not in names})

    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [*own, *added]} | {"return": None}
    return run


def read_file(context: typer.Context, path: Path | None) -> Path | None:
    """Defaults from a file; what --set has said already stays."""
    from unbottle.cli.train_options import read_config_file

    if path is not None:
        found = checked(context, read_config_file(path), str(path))
        context.default_map = {**found, **(context.default_map or {})}
    return path


def read_pairs(context: typer.Context, pairs: Sequence[str] | None) -> Sequence[str] | None:
    """Defaults from KEY=VALUE. A key that comes again adds a value, to an option that takes several."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair!r}: write KEY=VALUE, as in --set batch=4.")
        name = name.strip().replace("-", "_")
        found[name] = [*found[name], value] if name in found else [value]
    flat = {name: values if takes_several(context, name) else values[-1] for name, values in found.items()}
    if flat:
        context.default_map = {**(context.default_map or {}), **checked(context, flat, "--set")}
    return pairs


def checked(context: typer.Context, told: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Only options of this command; several values as a list."""
    known = options(context)
    told = {name if name in known else FORMER.get(name, name): value for name, value in told.items()}
    for name in told:
        if name not in known:
            raise ValueError(f"{where}: unknown option {name!r}. Known: {', '.join(known)}.")
    return {
        known[name]: [value] if takes_several(context, name) and not isinstance(value, list) else value
        for name, value in told.items()
    }


def options(context: typer.Context) -> dict[str, str]:
    """The options of a command: what people call them, and what the function does."""
    found = {}
    for parameter in context.command.params:
        if parameter.param_type_name == "option" and parameter.name not in (*SHARED, "help"):
            longest = max((each for each in parameter.opts), key=len)
            found[longest.lstrip("-").replace("-", "_")] = str(parameter.name)
    return found


def takes_several(context: typer.Context, name: str) -> bool:
    real = options(context).get(name)
    return any(parameter.name == real and getattr(parameter, "multiple", False) for parameter in context.command.params)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {  # name: function, examples
    "demo": (demo, DEMO_EXAMPLES),
    "methods": (methods, METHODS_EXAMPLES),
    "doctor": (doctor, DOCTOR_EXAMPLES),
    "generate": (generate, GENERATE_EXAMPLES),
    "app": (app, APP_EXAMPLES),
    "bench": (bench, BENCH_EXAMPLES),
    "report": (report, REPORT_EXAMPLES),
    "reproduce": (reproduce, REPRODUCE_EXAMPLES),
    "compare": (compare, COMPARE_EXAMPLES),
    "summarize": (summarize, SUMMARIZE_EXAMPLES),
    "train lm": (train_lm, TRAIN_LM_EXAMPLES),
    "train summarize": (train_summarize, TRAIN_SUMMARIZE_EXAMPLES),
    "eval perplexity": (eval_perplexity, EVAL_PERPLEXITY_EXAMPLES),
    "eval completion": (eval_completion, EVAL_COMPLETION_EXAMPLES),
    "eval lm-eval": (eval_lm_eval, EVAL_LM_EVAL_EXAMPLES),
    "eval analogy": (eval_analogy, EVAL_ANALOGY_EXAMPLES),
    "eval probe": (eval_probe, EVAL_PROBE_EXAMPLES),
    "eval summaries": (eval_summaries, EVAL_SUMMARIES_EXAMPLES),
}
GROUPS = {  # name: what its commands have in common
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
SEVERAL = ("train",)  # what a launcher may start as several processes
DEBUG = "--debug"
RESUMES = ("demo", "reproduce", "compare", "train lm", "train summarize")
RESUMES_FILES = ("generate", "summarize", "eval completion", "eval summaries")  # with --output


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    given = list(sys.argv[1:] if args is None else args)
    debug = DEBUG in given  # wherever it stands: it is asked for after the fact, at the end of the line
    line = [spelled(arg) for arg in given if arg != DEBUG]
    with ending(debug=debug, resumes=resumes(line)) as end:
        result = program()(args=line, prog_name="unbottle", standalone_mode=False)
        end.code = result if isinstance(result, int) else end.code
    return end.code


def spelled(arg: str) -> str:
    """An argument; an option that had another name before under that of today."""
    name, equals, value = arg.partition("=")
    known = FORMER.get(name.removeprefix("--").replace("-", "_")) if name.startswith("--") else None
    return arg if known is None else f"--{known.replace('_', '-')}{equals}{value}"


def resumes(line: Sequence[str]) -> bool:
    """Whether the same command line goes on where it was interrupted."""
    name = next((name for name in COMMANDS if [*line[: len(name.split())]] == name.split()), "")
    return name in RESUMES or (name in RESUMES_FILES and any(arg.startswith("--output") for arg in line))


def program() -> typer.Typer:
    """All commands. On a terminal their help has colours and boxes; elsewhere it is plain text."""
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
        place = root
        if group:
            if group[0] not in groups:
                groups[group[0]] = typer.Typer(help=GROUPS[group[0]], **look, context_settings=settings)
                root.add_typer(groups[group[0]], name=group[0])
            place = groups[group[0]]
        shown: dict[str, Any] = {"epilog": paragraph(examples), "short_help": summary(command)}
        kind = getattr(command, "command_class", None)
        place.command(name, cls=kind, **shown, context_settings=settings)(with_shared_options(command))
        if group and len(place.registered_commands) == 1:
            place.callback()(lambda: None)  # a group of one command is still a group
    return root


def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error, not just its message.")] = False,
) -> None:
    """A better output layer for any Hugging Face language model.

    Exit codes: 0 done, 1 failed, 2 refused (wrong options, files or methods), 75 a training was stopped by SIGTERM and
    resumes if the same command is run again, 130 interrupted. NO_COLOR is respected, and what does not go to a terminal
    has no control characters.
    """
    del debug  # main has taken it off the line already
    if version:
        print(f"unbottle {importlib.metadata.version('unbottle')}")
        raise typer.Exit(OK)
    if processes() > 1 and context.invoked_subcommand not in (None, *SEVERAL):
        raise ValueError(
            f"unbottle {context.invoked_subcommand} runs as one process, and {processes()} were started. Start it "
            "without torchrun or accelerate launch."
        )
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(REFUSED)


def summary(command: Callable[..., None]) -> str:
    """The first paragraph of a command's help, whole: click would cut it at the end of the line."""
    return " ".join((command.__doc__ or "").strip().partition("\n\n")[0].split())


def paragraph(examples: str) -> str:
    """Examples as they are written, line by line."""
    if is_terminal():  # what rich draws: a blank line is the only one that it keeps
        return "\n\n".join(["Examples:", *(f"    {line}" for line in examples.strip().splitlines())])
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
