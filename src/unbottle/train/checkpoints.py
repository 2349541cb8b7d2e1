"""Checkpoint folders that are complete or do not count, and their contents: state without pickle.

Optimizer states, schedules and random generators are stored as safetensors and JSON, so that loading a checkpoint never
executes code.
"""

from __future__ import annotations

import json
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbottle.files import explain_full_disk, replace_folder, write_json

PREFIX = "checkpoint-"
MANIFEST = "manifest.json"
BLOCK = 1 << 20


def seal(temporary: Path, folder: Path) -> Path:
    """Add a manifest to a checkpoint that was written elsewhere, and move it into `folder`. Returns its final path."""
    with explain_full_disk(folder):
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        manifest = {path.relative_to(temporary).as_posix(): _size_and_crc(path) for path in files}
        write_json(temporary / MANIFEST, manifest)
        replace_folder(temporary, folder / temporary.name)
    return folder / temporary.name


def latest(folder: Path) -> Path | None:
    """The last checkpoint, or None. Raises an error that names damaged ones after the last intact one."""
    damaged: list[str] = []
    intact = None
    for path in reversed(_sorted(folder)):
        if not (problem := _problem(path)):
            intact = path
            break
        damaged.append(f"{path} ({problem})")
    if damaged:
        those = "it" if len(damaged) == 1 else "them"
        then = "to start from the beginning" if intact is None else f"to resume from {intact.name}, which is intact"
        raise ValueError(f"damaged: {', '.join(damaged)}. Delete {those} {then}, and run the same command again.")
    return intact


def newest(folder: Path) -> Path | None:
    """The last checkpoint, intact or not."""
    return next(reversed(_sorted(folder)), None)


def rotate(folder: Path, keep: int | None, best: str | None = None) -> None:
    """Delete all but the last few checkpoints and the best one. None: keep all."""
    for path in [] if keep is None else _sorted(folder)[:-keep]:
        if best is None or path != Path(best):
            (path / MANIFEST).unlink(missing_ok=True)  # first: what is half deleted must not count
            shutil.rmtree(path, ignore_errors=True)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def _sorted(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()), key=step_of)


def _size_and_crc(path: Path) -> list[int]:
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def _problem(path: Path) -> str | None:
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name, (size, checksum) in files.items():
            current_size, current_checksum = _size_and_crc(path / name)
            if current_size != size:
                return f"{name} has {current_size} bytes, not {size}"
            if current_checksum != checksum:
                return f"{name} has another checksum"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return f"{MANIFEST} cannot be read"
    return None


TENSOR, ARRAY, TUPLE, ITEMS = "tensor", "array", "tuple", "items"  # types that JSON does not have


def write_state(folder: Path, name: str, state: object) -> None:
    """Write dicts, lists, tuples, numbers and strings to NAME.json, and the tensors in them to NAME.safetensors."""
    tensors: dict[str, Tensor] = {}
    structure = _encode(state, tensors)
    save_file(tensors, folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", structure)


def read_state(folder: Path, name: str) -> Any:
    """The state that write_state stored, bit for bit, with tensors on the CPU in memory of their own."""
    try:
        structure = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / f"{name}.safetensors")
        return _decode(structure, tensors)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} has no {Path(str(error.filename)).name}: another version of unbottle wrote it. Resume with that "
            "version, or delete this checkpoint."
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise ValueError(f"{folder / name}: was edited ({error}). Delete this checkpoint.") from error


def _encode(value: object, tensors: dict[str, Tensor]) -> object:
    name = str(len(tensors))
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {TENSOR: name}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(value.astype(np.int64))  # NumPy's generator counts in uint32
        return {ARRAY: name, "dtype": str(value.dtype)}
    if isinstance(value, dict):  # its keys may be numbers
        return {ITEMS: [[_encode(part, tensors) for part in item] for item in value.items()]}
    if isinstance(value, tuple):
        return {TUPLE: [_encode(part, tensors) for part in value]}
    if isinstance(value, list):
        return [_encode(part, tensors) for part in value]
    assert value is None or isinstance(value, (bool, int, float, str)), f"{type(value)} cannot be stored"
    return value


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]].clone()  # out of the file, whose alignment may change how results round
    if ARRAY in value:
        return tensors[value[ARRAY]].numpy().astype(value["dtype"])
    if TUPLE in value:
        return tuple(_decode(part, tensors) for part in value[TUPLE])
    return {_decode(key, tensors): _decode(part, tensors) for key, part in value[ITEMS]}


def random_state() -> dict[str, object]:
    """The state of the random generators of Python, NumPy and torch."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "cpu": torch.get_rng_state(), "cuda": cuda}


def set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
