"""Write the reference pages of the site, docs/reference/, which is not in git: python scripts/build_reference.py

`api-*.md` come from docstrings, `cli.md` from the output of every --help, `methods.md` from `unbottle methods`.
Docstrings are plain text with equations in columns, which mkdocstrings would parse as Markdown; so they are shown
verbatim.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
from pathlib import Path
from types import ModuleType
from typing import Any

from unbottle.cli.main import COMMANDS, main

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MODULES = {
    "unbottle": "attach, load, explain and knobs: all that most people need",
    "unbottle.method": "the method language",
    "unbottle.head": "the output layers, on plain tensors",
    "unbottle.data": "texts and document-summary pairs",
    "unbottle.train": "training",
    "unbottle.eval": "evaluation and generation",
}


def printed(*words: str) -> str:
    """The output of a command."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert main([*words]) == 0, words
    return stream.getvalue().rstrip()


def block(text: str) -> str:
    return f"```text\n{text}\n```"


def cli() -> str:
    parts = ["# Commands", "The output of `--help` for every command.", block(printed("--help"))]
    for name in COMMANDS:
        parts += [f"## unbottle {name}", block(printed(*name.split(), "--help"))]
    return "\n\n".join(parts)


def methods() -> str:
    parts = ["# Equations of every method", "The output of `unbottle methods`."]
    for shape in ("gpt2", "t5-small"):
        parts += [f"## On {shape}", block(printed("methods", "--shape", shape))]
    return "\n\n".join(parts)


def api(name: str, about: str) -> str:
    module = importlib.import_module(name)
    parts = [f"# {name}", f"{about[0].upper()}{about[1:]}.", block(inspect.getdoc(module) or "")]
    for member in sorted(public(module), key=str.lower):
        parts += entry(f"{name}.{member}", getattr(module, member))
    return "\n\n".join(parts)


def public(module: ModuleType) -> list[str]:
    """`__all__`; for a module without one, the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, value in vars(module).items() if name[0] != "_" and _defined_in(value, module)]


def _defined_in(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__qualname__")


def entry(name: str, thing: Any) -> list[str]:
    """A heading, the signature and the docstring; for a class also its public methods."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return [f"## {name}", block(f"{type(thing).__name__}: {thing!r}"[:600])]
    parts = [f"## {name}", block(f"{name.rpartition('.')[2]}{signature(thing)}")]
    if documented(thing):
        parts.append(block(documented(thing)))
    if inspect.isclass(thing):
        for member, value in sorted(vars(thing).items()):
            function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if inspect.isfunction(function) and not member.startswith("_") and documented(function):
                parts += [f"### {name.rpartition('.')[2]}.{member}", block(f"{member}{signature(function)}")]
                parts.append(block(documented(function)))
    return parts


def documented(thing: Any) -> str:
    """Its docstring, unless @dataclass generated it."""
    text = inspect.getdoc(thing) or ""
    generated = dataclasses.is_dataclass(thing) and text.startswith(f"{getattr(thing, '__name__', '')}(")
    return "" if generated else text


def signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""


def write() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    pages = {"cli": cli(), "methods": methods()}
    pages |= {f"api-{name.replace('.', '-')}": api(name, about) for name, about in MODULES.items()}
    for name, text in pages.items():
        (FOLDER / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    print(f"Written to {FOLDER}: {', '.join(pages)}")


if __name__ == "__main__":
    write()
