"""Checkpoints: folders that are whole, or do not count.

write_state, read_state: what optimizers, schedules and generators remember, as safetensors and JSON.

Nothing is pickled, so no checkpoint can run code when it is read.

PlainCheckpoints: a Trainer whose checkpoints hold no pickle.
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
from transformers import Trainer

from unbottle.files import explain_full_disk, replace_folder, write_json

PREFIX = "checkpoint-"
MANIFEST = "manifest.json"
BLOCK = 1 << 20


def seal(temporary: Path, folder: Path) -> Path:
    """A checkpoint that was written under another name gets its list of files, and only then its own name."""
    with explain_full_disk(folder):
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        marks = {path.relative_to(temporary).as_posix(): _mark(path) for path in files}
        write_json(temporary / MANIFEST, marks)
        replace_folder(temporary, folder / temporary.name)
    return folder / temporary.name


def latest(folder: Path) -> Path | None:
    """The last checkpoint. One that was cut or edited is refused by its name, and the one before it is offered."""
    damaged: list[str] = []
    for path in reversed(_sorted(folder)):
        if not (problem := _problem(path)):
            break
        damaged.append(f"{path} ({problem})")
    else:
        path = None
    if damaged:
        those = "it" if len(damaged) == 1 else "them"
        before = "to start from the beginning" if path is None else f"to go on from {path.name}, which is whole"
        raise ValueError(f"damaged: {', '.join(damaged)}. Delete {those} {before}, and run the same command again.")
    return path


def newest(folder: Path) -> Path | None:
    """The last checkpoint, whole or not."""
    return next(reversed(_sorted(folder)), None)


def rotate(folder: Path, keep: int) -> None:
    """Only the last few stay."""
    for path in _sorted(folder)[:-keep]:
        (path / MANIFEST).unlink(missing_ok=True)  # first: what is half deleted must not count
        shutil.rmtree(path, ignore_errors=True)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def _sorted(folder: Path) -> list[Path]:
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()]
    return sorted(found, key=step_of)


def _mark(path: Path) -> list[int]:
    """Size and checksum of a file."""
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def _problem(path: Path) -> str | None:
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name, (size, checksum) in files.items():
            found = _mark(path / name)
            if found[0] != size:
                return f"{name} has {found[0]} bytes, not {size}"
            if found[1] != checksum:
                return f"{name} was damaged"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return f"{MANIFEST} can not be read"
    return None


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


OPTIMIZER, SCHEDULE, SCALER, RANDOM = "optimizer", "schedule", "scaler", "random"


class PlainCheckpoints(Trainer):
    """Takes the place of everything that the Trainer would write with torch.save and read with torch.load."""

    lr_scheduler: Any
    optimizer: Any

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.args.should_save:
            write_state(Path(output_dir), OPTIMIZER, self.optimizer.state_dict())
            write_state(Path(output_dir), SCHEDULE, self.lr_scheduler.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.optimizer.load_state_dict(read_state(Path(checkpoint), OPTIMIZER))
            self.lr_scheduler.load_state_dict(read_state(Path(checkpoint), SCHEDULE))

    def _save_scaler(self, output_dir: str) -> None:
        if self.args.should_save and self._scaler is not None:
            write_state(Path(output_dir), SCALER, self._scaler.state_dict())

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self._scaler is not None:
            self._scaler.load_state_dict(read_state(Path(checkpoint), SCALER))

    @property
    def _scaler(self) -> Any:
        """Of float16 on a GPU."""
        return getattr(self.accelerator, "scaler", None)

    def _save_rng_state(self, output_dir: str) -> None:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        write_state(Path(output_dir), self._random_name, random_state())

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            set_random_state(read_state(Path(checkpoint), self._random_name))

    @property
    def _random_name(self) -> str:
        """Each process draws its own numbers."""
        return RANDOM if self.args.world_size <= 1 else f"{RANDOM}-{self.args.process_index}"


def random_state() -> dict[str, Any]:
    """Where all generators stand."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "cpu": torch.get_rng_state(), "cuda": cuda}


def set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
