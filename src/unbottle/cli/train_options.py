"""Settings of a training out of a file and a command line.

What a training would take: steps, time and disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from unbottle.train.arguments import PRESETS

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


ADAM = 8  # bytes of a trained parameter: two moments in float32
TRIES = 2  # steps that are timed; the first is to warm up
NOTE = "Time is measured with one batch on this machine, without validation and checkpoints."


def estimate(model: Any, train: Any, valid: Any, settings: Any) -> dict[str, Any]:
    """Steps by the amount of data, time by a step that is tried (no weight changes), disk by what is written.

    With train="head" the frozen model reads each window once, and a step is one of the head alone. With "lora" the time
    is that of all weights, which is the most it can be.
    """
    from unbottle.hf.modeling import HeadMixin
    from unbottle.train.trainer import collate

    examples = len(train) if hasattr(train, "__len__") else None
    steps = steps_of(examples, settings)
    rows = [row for _, row in zip(range(settings.batch), iter(train), strict=False)]
    headed = isinstance(model, HeadMixin)
    head_alone = headed and settings.train == "head"
    ahead = head_alone and not model.config.is_encoder_decoder and not model.head.config.method.wbwr
    reading, step = seconds_of(model, collate(rows), head_alone=head_alone)
    seconds = steps * settings.accumulate * step
    part = model.head if headed and settings.train != "all" else model
    trained = {id(p): p for p in part.parameters() if p.requires_grad}.values()
    checkpoint = sum(p.numel() * (p.element_size() + ADAM) for p in trained)
    disk = {
        "model": sum(p.numel() * p.element_size() for p in model.parameters()),
        "checkpoints": settings.keep * checkpoint,
    }
    if ahead and examples is not None:
        seconds = examples / settings.batch * reading + steps * settings.accumulate * max(step - reading, 0.0)
        windows = examples + (0 if valid is None else len(valid))
        disk["hidden states"] = windows * states_bytes(model, rows[0], settings)
    return {
        "examples": examples,
        "steps": steps,
        "seconds": round(seconds, 1),
        "time": spoken(seconds),
        "disk_bytes": disk,
        "disk": size(sum(disk.values())),
        "note": NOTE,
    }


def steps_of(examples: int | None, settings: Any) -> int:
    """As the Trainer counts them."""
    if settings.max_steps is not None:
        return int(settings.max_steps)
    if examples is None:
        raise ValueError("--streaming needs --max-steps: a stream has no end.")
    batches = math.ceil(examples / settings.batch)
    steps: int = math.ceil(settings.epochs * max(1, math.ceil(batches / settings.accumulate)))
    return steps


def seconds_of(model: Any, batch: dict[str, Any], *, head_alone: bool) -> tuple[float, float]:
    """Of reading a batch, and of a step with it: of the head alone, or of all weights. Weights stay as they are."""
    import torch

    from unbottle.eval.inference import best_device

    device = best_device()
    model.to(device)
    batch = {name: value.to(device) for name, value in batch.items()}
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    if head_alone:
        model.requires_grad_(False)
        model.head.requires_grad_(True)
    reading = step = 0.0
    for _ in range(TRIES):
        started = time.perf_counter()
        with torch.no_grad():
            model.eval()(**batch)
        reading = time.perf_counter() - started
        started = time.perf_counter()
        model.train()(**batch).loss.backward()
        step = time.perf_counter() - started
        model.zero_grad()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(wanted[name])
    return reading, step


def states_bytes(model: Any, row: dict[str, Any], settings: Any) -> int:
    """Of the hidden states of one window."""
    import torch

    from unbottle.hf.head_inputs import layers_of
    from unbottle.train.modes import DTYPES

    with torch.no_grad():
        layers = layers_of(model.eval(), {"input_ids": row["input_ids"][None].to(model.device)})
    return int(layers.numel()) * DTYPES[settings.states_dtype].itemsize


def spoken(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def size(count: int) -> str:
    """Bytes as people say them."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
