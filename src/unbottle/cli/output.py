"""What people read: boxes, colours and whole words on a terminal, the plain text everywhere else.

What a command leaves behind: files that are there as a whole or not at all.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from unbottle.files import whole_disk


def is_terminal(stream: TextIO | None = None) -> bool:
    return (sys.stdout if stream is None else stream).isatty()


def show(markdown: str) -> None:
    """Print Markdown: drawn on a terminal, as it is where another program reads it."""
    if not is_terminal():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout).print(Markdown(markdown))


def show_text(text: str, stream: TextIO | None = None, *, style: str = "") -> None:
    """Print text, which a terminal gets in lines that end between words."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        print(text, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stream).print(Text(text, style=style), highlight=False)


def config_of(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All that a run was told, and by which versions it was carried out."""
    versions = {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")}
    return {
        "command": command,
        "settings": dict(settings),
        "versions": {"python": platform.python_version(), **versions},
    }


def prepare(folder: Path | None) -> None:
    """Make the folder, or refuse, before any work is done."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".writable"
    probe.touch()
    probe.unlink(missing_ok=True)  # another process may probe at the same time


def prepare_file(path: Path | None) -> None:
    """The same for a file: its folder is there, and it is none itself."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder. Name a file to write to.")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{path}: can not be written ({path.parent}: Not a directory).")
    prepare(path.parent)


def write_run(folder: Path | None, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """config.json and result.json; the last line printed names the folder."""
    if folder is None:
        return
    for name, data in (("config", config), ("result", result)):
        write_text(folder / f"{name}.json", json.dumps(data, indent=1) + "\n")
    print(f"\nWritten to {folder}: config.json, result.json")


def write_text(path: Path, text: str) -> None:
    """The whole file, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with whole_disk(path.parent):
            unfinished.write_text(text, encoding="utf-8")
            os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
