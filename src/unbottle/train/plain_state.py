"""write_state, read_state: what optimizers, schedules and generators remember, as safetensors and JSON.

Nothing is pickled, so no checkpoint can run code when it is read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbottle.train.files import write_json

TENSOR, ARRAY, TUPLE, ITEMS = "tensor", "array", "tuple", "items"  # JSON has no word for them


def write_state(folder: Path, name: str, state: Any) -> None:
    """Dicts, lists, tuples, numbers and texts go to NAME.json, the tensors in them to NAME.safetensors."""
    tensors: dict[str, Tensor] = {}
    structure = _taken_apart(state, tensors)
    save_file(tensors, folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", structure)


def read_state(folder: Path, name: str) -> Any:
    """What write_state was given, bit for bit; tensors on the CPU, in memory of their own."""
    try:
        structure = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / f"{name}.safetensors")
        return _put_together(structure, tensors)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} has no {Path(str(error.filename)).name}: another version of unbottle wrote it. Go on with that "
            "version, or delete this checkpoint."
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise ValueError(f"{folder / name}: was edited ({error}). Delete this checkpoint.") from error


def _taken_apart(value: Any, tensors: dict[str, Tensor]) -> Any:
    name = str(len(tensors))
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {TENSOR: name}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(value.astype(np.int64))  # NumPy's generator counts in uint32
        return {ARRAY: name, "dtype": str(value.dtype)}
    if isinstance(value, dict):  # its keys may be numbers
        return {ITEMS: [[_taken_apart(part, tensors) for part in item] for item in value.items()]}
    if isinstance(value, tuple):
        return {TUPLE: [_taken_apart(part, tensors) for part in value]}
    if isinstance(value, list):
        return [_taken_apart(part, tensors) for part in value]
    assert value is None or isinstance(value, (bool, int, float, str)), f"{type(value)} can not be stored"
    return value


def _put_together(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_together(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]].clone()  # out of the file: what lies elsewhere may round otherwise
    if ARRAY in value:
        return tensors[value[ARRAY]].numpy().astype(value["dtype"])
    if TUPLE in value:
        return tuple(_put_together(part, tensors) for part in value[TUPLE])
    return {_put_together(key, tensors): _put_together(part, tensors) for key, part in value[ITEMS]}
