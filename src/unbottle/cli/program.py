"""The program `unbottle`. A new command is one file with one function, and one line in COMMANDS."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from unbottle.cli.bench import EXAMPLES as BENCH_EXAMPLES
from unbottle.cli.bench import bench
from unbottle.cli.ending import OK, REFUSED, ending

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {  # name: function, examples
    "bench": (bench, BENCH_EXAMPLES),
}
EXAMPLES = """
unbottle bench --shape gpt2
unbottle bench --help
python -m unbottle --version
"""
DEBUG = "--debug"


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    given = list(sys.argv[1:] if args is None else args)
    debug = DEBUG in given  # wherever it stands: it is asked for after the fact, at the end of the line
    with ending(debug=debug) as end:
        result = program()(args=[arg for arg in given if arg != DEBUG], prog_name="unbottle", standalone_mode=False)
        end.code = result if isinstance(result, int) else end.code
    return end.code


def program() -> typer.Typer:
    """All commands. Their help is plain text wherever it goes: no colours, no boxes."""
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        context_settings=settings,
        epilog=paragraph(EXAMPLES),
    )
    app.callback(invoke_without_command=True)(top)
    for name, (command, examples) in COMMANDS.items():
        app.command(name, epilog=paragraph(examples), context_settings=settings)(command)
    return app


def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error, not just its message.")] = False,
) -> None:
    """A better output layer for any Hugging Face language model.

    Exit codes: 0 done, 1 failed, 2 refused (wrong options, files or methods), 130 interrupted. NO_COLOR is respected,
    and what does not go to a terminal has no control characters.
    """
    del debug  # main has taken it off the line already
    if version:
        print(f"unbottle {importlib.metadata.version('unbottle')}")
        raise typer.Exit(OK)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(REFUSED)


def paragraph(examples: str) -> str:
    """Examples as they are written, line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
