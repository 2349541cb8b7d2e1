"""--set and --config-file for every command that has no such option of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

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
    from unbottle.cli.train_settings import from_file

    if path is not None:
        found = checked(context, from_file(path), str(path))
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
