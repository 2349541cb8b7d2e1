"""Checks of the weights of a saved model: names and sizes that its config describes, finite values."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

HEAD_WEIGHTS = "head."  # how the names of a head's weights begin
MISMATCHED, MISSING, UNEXPECTED = "mismatched", "missing", "unexpected"
WRONG = {MISMATCHED: "of another shape", MISSING: "missing", UNEXPECTED: "unexpected"}
PLAIN_DTYPES = ("F64", "F32", "F16", "BF16")  # in which a weight has the shape of its parameter

LoadingInfo = Mapping[str, Iterable[str | Sequence[str]]]  # output_loading_info of from_pretrained: names by kind


def refuse_wrong_weights(path: str | PathLike[str], wrong: Mapping[str, Iterable[str]]) -> None:
    """Refuse weights that config.json does not describe; `wrong` has their names by kind, the worst kind first."""
    for kind, names in wrong.items():
        if listed := sorted(names):
            more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
            raise ValueError(
                f"{path}: the weights do not belong to config.json: {listed[0]}{more} {WRONG[kind]}. One of the files "
                "was edited or lost; save the model again."
            )


def loading_problems(info: LoadingInfo, kinds: Iterable[str], prefix: str = "") -> dict[str, list[str]]:
    """Names of wrong weights by kind, of what from_pretrained says about its loading."""
    names = {kind: [name if isinstance(name, str) else name[0] for name in info[f"{kind}_keys"]] for kind in kinds}
    return {kind: [name for name in listed if name.startswith(prefix)] for kind, listed in names.items()}


def refuse_other_sizes(
    path: str | PathLike[str],
    subfolder: str,
    kind: Callable[[PretrainedConfig], nn.Module],
    config: PretrainedConfig,
) -> None:
    """Compare a folder's config with the headers of its weights, before memory is allocated for either.

    `kind` is the class of the model. Says nothing about a checkpoint without a head, or without safetensors here.
    """
    stored = _stored_shapes(Path(path) / subfolder)
    if not any(name.startswith(HEAD_WEIGHTS) for name in stored):
        return
    try:
        with torch.device("meta"):
            model = kind(copy.deepcopy(config))
    except (RuntimeError, TypeError, OverflowError, ZeroDivisionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path}: no model can have the sizes that config.json says ({reason}).") from error
    expected = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    other = [name for name, shape in stored.items() if name in expected and not _fits(name, shape, expected[name])]
    missing = [name for name in expected if name.startswith(HEAD_WEIGHTS) and name not in stored]
    refuse_wrong_weights(path, {MISMATCHED: other, MISSING: missing})


def refuse_broken_values(path: str | PathLike[str], weights: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity: every prediction would silently be NaN."""
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.is_meta and not bool(weight.isfinite().all()):
            raise ValueError(
                f"{path}: {name} has values that are NaN or infinite. The training that made them diverged, or the "
                "file was edited: take an earlier checkpoint."
            )


def _fits(name: str, stored: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether a weight can become this parameter. transformers stores some of a model's in another layout."""
    return stored == expected if name.startswith(HEAD_WEIGHTS) else math.prod(stored) == math.prod(expected)


def _stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name, from the headers of a folder's safetensors; nothing else is read."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in _files(folder):
        try:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118  it is no dict
                    part = weights.get_slice(name)
                    if part.get_dtype() in PLAIN_DTYPES or name.startswith(HEAD_WEIGHTS):  # a head is never quantised
                        shapes[name] = tuple(part.get_shape())
        except (OSError, SafetensorError):
            return {}  # from_pretrained will say what is wrong with it
    return shapes


def _files(folder: Path) -> list[Path]:
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if not index.is_file():
        return [folder / SAFE_WEIGHTS_NAME] if (folder / SAFE_WEIGHTS_NAME).is_file() else []
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return [folder / name for name in sorted({*places.values()})]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
