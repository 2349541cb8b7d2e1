"""Output of commands: formatted on a terminal, plain text elsewhere; config.json and result.json of a run."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TextIO

import typer

from unbottle.files import writable_folder, write_json


def is_terminal(stream: TextIO | None = None) -> bool:
    return (sys.stdout if stream is None else stream).isatty()


def show(markdown: str) -> None:
    """Print Markdown, formatted on a terminal."""
    if not is_terminal():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout).print(Markdown(markdown))


def show_text(text: str, stream: TextIO | None = None) -> None:
    """Print text, wrapped at words on a terminal."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        print(text, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stream).print(Text(text), highlight=False)


def config_of(command: str, settings: Mapping[str, object], *, dry_run: bool = False) -> dict[str, object]:
    """The content of config.json: the command, its settings and the versions of what ran it. A dry run ends here."""
    versions = {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")}
    config: dict[str, object] = {
        "command": command,
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()},
        "versions": {"python": platform.python_version(), **versions},
    }
    if dry_run:
        end_dry_run(config)
    return config


def end_dry_run(config: Mapping[str, object]) -> NoReturn:
    """Print what a run would do, and end the command."""
    print(json.dumps(config, indent=1))
    raise typer.Exit


def prepare(folder: Path | None) -> None:
    """Create the output folder, or raise OSError, before any work is done."""
    if folder is not None:
        writable_folder(folder)


def prepare_file(path: Path | None) -> None:
    """The same for an output file and its folder."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder. Name a file to write to.")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{path}: cannot be written ({path.parent}: Not a directory).")
    writable_folder(path.parent)


def write_run(folder: Path | None, config: Mapping[str, object], result: Mapping[str, object]) -> None:
    """Write config.json and result.json, and print the name of the folder as the last line."""
    if folder is not None:
        write_json(folder / "config.json", config)
        write_json(folder / "result.json", result)
        print(f"\nWritten to {folder}: config.json, result.json")


def by_implementation(implementations: Mapping[str, str]) -> str:
    """A line for each implementation, after the metrics that it computes."""
    metrics: dict[str, list[str]] = {}
    for name, code in implementations.items():
        metrics.setdefault(code, []).append(name)
    return "\n".join(f"{', '.join(names)}: {code}." for code, names in metrics.items())
