"""The public names of unbottle, as data: what can be called and how, names of parameters, commands."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from frozen import models

import unbottle

FILE = Path(__file__).parent / "public_names.json"
DATA = ("Method",)  # classes whose public attributes belong to the interface too


def names() -> dict[str, Any]:
    """For every public name: the parameters of its call, and the attributes of classes that hold data."""
    found: dict[str, Any] = {}
    for name in sorted(unbottle.__all__):
        value = getattr(unbottle, name)
        if isinstance(value, type) and issubclass(value, Exception):
            found[name] = {"bases": [base.__name__ for base in value.__mro__[1:] if base is not object]}
        elif callable(value):
            found[name] = {"call": parameters(value)}
            if name in DATA:
                found[name]["attributes"] = attributes(value)
        else:
            found[name] = {"type": type(value).__name__}
    return found


def parameters(function: Any) -> list[list[str]]:
    """Name, kind and default of each parameter of a call."""
    return [
        [parameter.name, parameter.kind.name, "" if parameter.default is parameter.empty else repr(parameter.default)]
        for parameter in inspect.signature(function).parameters.values()
    ]


def attributes(kind: Any) -> dict[str, Any]:
    """Public methods with their parameters; of everything else the name."""
    public = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    fields = dict.fromkeys(kind.__dataclass_fields__)
    methods = {name: parameters(getattr(kind, name)) for name in public if inspect.isroutine(getattr(kind, name))}
    return dict(sorted({**dict.fromkeys(public), **fields, **methods}.items()))


def head_parameters() -> dict[str, dict[str, list[int]]]:
    """Names and shapes in the state dict of a head, for every method on GPT-2 and T5."""
    found = {}
    for name in ("gpt2", "t5"):
        model = models.model(name, torch.float32)
        plain = set(model.state_dict())
        for method in models.METHODS:
            if models.takes(name, method):
                unbottle.attach(model, method, check=False)
                added = {key: value for key, value in model.state_dict().items() if key not in plain}
                found[f"{name} {method}"] = {key: list(value.shape) for key, value in sorted(added.items())}
                unbottle.detach(model)
    return found


def commands() -> list[str]:
    """Of the command line, with the commands of groups, as its help lists them."""
    found = []
    for name in listed():
        within = listed(name)
        found += [f"{name} {inner}" for inner in within] if within else [name]
    return sorted(found)


def listed(*group: str) -> list[str]:
    """The commands that the help of a group names; none if it is a command itself."""
    _, text = run(*group, "--help")
    _, heading, rest = text.partition("\nCommands:\n")
    return re.findall(r"^  ([a-z][\w-]*)", rest, re.MULTILINE) if heading else []


def run(*arguments: str) -> tuple[int, str]:
    """What `python -m unbottle ARGUMENTS` exits with and prints, without a new process."""
    printed, before = io.StringIO(), sys.argv
    sys.argv = ["unbottle", *arguments]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module("unbottle", run_name="__main__", alter_sys=False)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return code, printed.getvalue()
    finally:
        sys.argv = before
    return 0, printed.getvalue()
