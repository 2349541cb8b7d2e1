"""Settings of a training out of a file and a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from unbottle.train.settings import PRESETS

TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
DEFAULT = "paper"
FOLDER = "runs/lm"


def settings_of(
    told: Mapping[str, Any],
    pairs: Sequence[str],
    presets: Mapping[str, Any] = PRESETS,
    folder: str = FOLDER,
) -> Any:
    """A preset, what was told beside it, and KEY=VALUE last."""
    changes = {**told, **pairs_of(pairs)}
    preset = changes.pop("preset", DEFAULT)
    if not isinstance(preset, str) or preset not in presets:
        raise ValueError(f"preset {preset!r}: unknown. Known: {', '.join(presets)}.")
    return changed(presets[preset], {"output": folder} | changes)


def form_of_preset(told: Mapping[str, Any]) -> str | None:
    """A preset of the paper, asked for by name, comes with the paper's form; others with the default."""
    return "paper" if str(told.get("preset", "")).startswith("paper") else None


def pairs_of(pairs: Sequence[str]) -> dict[str, str]:
    """What --set KEY=VALUE says, by the names of the settings."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair!r}: write KEY=VALUE, as in --set batch=4.")
        found[name.strip().replace("-", "_")] = value
    return found


def changed(settings: Any, changes: Mapping[str, Any]) -> Any:
    """The settings, a frozen dataclass, with these changes, whoever spelled them."""
    types = {field.name: str(field.type) for field in fields(settings)}
    for name in changes:
        if name not in types:
            raise ValueError(f"setting {name!r}: unknown. Known: {', '.join(types)}.")
    return replace(settings, **{name: convert(name, value, types[name]) for name, value in changes.items()})


def convert(name: str, value: Any, kind: str) -> Any:
    """A value as the type of its setting, whether a file or a command line spelled it."""
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value).strip()
    if value is None or text.lower() == "none":
        if "None" in kind:
            return None
        raise ValueError(f"{name}: it can not be none; give a value.")
    if kind.startswith("tuple"):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind.startswith("bool"):
        if text.lower() not in TRUTHS:
            raise ValueError(f"{name} {text!r}: give true or false.")
        return TRUTHS[text.lower()]
    if kind.startswith("str"):
        return value if isinstance(value, str) else text  # not stripped: a prefix ends with a space
    try:
        return int(text) if kind.startswith("int") else float(text)
    except ValueError as error:
        what = "a whole number" if kind.startswith("int") else "a number"
        raise ValueError(f"{name} {text!r}: give {what}.") from error


def from_file(path: Path) -> dict[str, Any]:
    """What a YAML file (JSON is YAML too) says, by the names of the options."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Without aliases: a few lines of them stand for more values than any memory holds."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                name = self.peek_event().anchor
                raise ValueError(f"the alias *{name}: write the value itself, no alias is allowed here")
            return super().compose_node(parent, index)

    try:
        found = Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # dates, nested too deep
        raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected lines of name: value, as in 'lr: 1e-5'.")
    return {str(name).replace("-", "_"): value for name, value in found.items()}
