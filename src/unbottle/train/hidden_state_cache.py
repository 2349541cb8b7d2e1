"""StateStore: what a frozen model says about each window, computed once and kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import shutil
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unbottle.files import LOCK, explain_full_disk, file_lock, read_json, replace_file, write_json
from unbottle.progress import Progress
from unbottle.train.distributed import first_does, is_first, processes, rank, wait
from unbottle.train.trainer import collate

SHARD = 256 << 20  # bytes
LAYERS, MANIFEST, FORMAT = "layers", "states.json", 2
STORE, CHECKSUM = "store", "crc32"  # in the header of each file
UNIMPORTANT = ("_name_or_path", "architectures", "transformers_version", "use_cache", "unbottle")  # of a config


class StateStore:
    """Windows x tokens x layers x hidden size, in files that are mapped into memory, not read.

    The folder bears the name of everything that the states depend on, so a store is right or it is not found. Each file
    bears that name too, and a checksum: one that was cut, edited or put here from elsewhere is made again. A store that
    was not finished is finished; of several processes that share it, one works and the others wait.
    """

    def __init__(self, folder: Path, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
        self.folder, self.shape, self.dtype = folder, shape, dtype
        self.per_shard = max(1, SHARD // (shape[1] * shape[2] * shape[3] * dtype.itemsize))
        self.shards = -(-shape[0] // self.per_shard)
        self._open: dict[int, Any] = {}

    def __getitem__(self, place: int) -> Tensor:
        """Of one window, T L D."""
        shard, row = divmod(place, self.per_shard)
        if shard not in self._open:
            self._open[shard] = safe_open(self._file(shard), framework="pt").get_slice(LAYERS)
        layers: Tensor = self._open[shard][row : row + 1]
        return layers[0]

    @torch.no_grad()
    def fill(self, windows: Any, layers: Callable[[dict[str, Tensor]], Tensor], batch: int, report: Progress) -> None:
        """Write what is missing. Several processes take turns, file by file, and wait for each other at the end."""
        with file_lock(self.folder / LOCK) if is_first() else contextlib.nullcontext():
            self._fill(windows, layers, batch, report)

    def _fill(self, windows: Any, layers: Callable[[dict[str, Tensor]], Tensor], batch: int, report: Progress) -> None:
        missing = first_does(self._missing)
        mine = missing[rank() :: processes()]
        for done, shard in enumerate(mine):
            places = range(shard * self.per_shard, min((shard + 1) * self.per_shard, self.shape[0]))
            found = torch.zeros(len(places), *self.shape[1:], dtype=self.dtype)
            for start in range(0, len(places), batch):
                rows = collate([windows[place] for place in places[start : start + batch]])
                states = layers(rows)
                found[start : start + len(states), : states.shape[1]] = states.to(self.dtype)
                work = done + (start + len(states)) / len(places)
                report(work, len(mine), f"hidden states, part {shard + 1} of {self.shards}")
            temporary = self._file(shard).with_suffix(".writing")
            with explain_full_disk(self.folder):
                save_file({LAYERS: found}, temporary, {STORE: self.folder.name, CHECKSUM: _checksum(found)})
                replace_file(temporary, self._file(shard))
        wait()

    def _missing(self) -> list[int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [shard for shard in range(self.shards) if not self._whole(shard)]
        self._refuse_full_disk(len(missing))
        return missing

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.safetensors"

    def _whole(self, shard: int) -> bool:
        """Whether a part is there, and what was written. One that is something else is named in a warning."""
        rows = min(self.per_shard, self.shape[0] - shard * self.per_shard)
        if not self._file(shard).exists():
            return False
        try:
            with safe_open(self._file(shard), framework="pt") as file:
                found, header = file.get_tensor(LAYERS), file.metadata() or {}
        except (OSError, SafetensorError) as error:
            problem = f"it can not be read: {error}"
        else:
            if header.get(STORE) != self.folder.name or list(found.shape) != [rows, *self.shape[1:]]:
                problem = "it is of another model, text or version"
            elif header.get(CHECKSUM) != _checksum(found):
                problem = "it was edited"
            else:
                return True
        warnings.warn(f"{self._file(shard)} is not used ({problem}): these hidden states are made again.", stacklevel=2)
        return False

    def _refuse_full_disk(self, missing: int) -> None:
        size = self.shape[1] * self.shape[2] * self.shape[3] * self.dtype.itemsize
        needed, free = missing * min(self.per_shard, self.shape[0]) * size, shutil.disk_usage(self.folder).free
        if needed > free:
            raise OSError(
                f"the hidden states need {needed / 1e9:.1f} GB in {self.folder}, with {free / 1e9:.1f} GB free: set "
                "states to a folder with more room or states_dtype to bfloat16, or give less text."
            )


def open_store(folder: Path, model: Any, windows: Any, dtype: torch.dtype, precision: str) -> StateStore:
    """The place for the states of these windows under this model; it may be empty."""
    depth, size = model.head.config.block[0], model.head.config.hidden_size
    length = max(len(windows[place]["input_ids"]) for place in range(len(windows)))
    shape = (len(windows), length, depth, size)
    name = first_does(lambda: _place(folder, model, windows, shape, dtype, precision))
    return StateStore(folder / name, shape, dtype)


def _place(folder: Path, model: Any, windows: Any, shape: tuple[int, ...], dtype: torch.dtype, precision: str) -> str:
    """Named after everything that the states depend on."""
    about = {
        "format": FORMAT,
        "versions": {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")},
        "model": weights_name(model),
        "windows": windows_name(windows),
        "shape": list(shape),
        "dtype": str(dtype),
        "precision": precision,
    }
    name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    (folder / name).mkdir(parents=True, exist_ok=True)
    _refuse_other(folder / name / MANIFEST, about)
    return name


def _refuse_other(manifest: Path, about: dict[str, Any]) -> None:
    """Write down what a store is of; refuse a folder that says it is of something else."""
    if manifest.exists() and (found := read_json(manifest)) != about:
        names = [name for name in about if not isinstance(found, dict) or found.get(name) != about[name]]
        raise ValueError(
            f"{manifest}: these hidden states are of something else ({', '.join(names)} differ): the folder was "
            f"renamed or edited. Delete {manifest.parent}, or set states to another folder."
        )
    write_json(manifest, about)


def _checksum(states: Tensor) -> str:
    return f"{zlib.crc32(states.contiguous().view(torch.uint8).numpy().data):08x}"


def weights_name(model: Any) -> str:
    """Of every weight under the head, bit for bit, and of the config that says what to do with them."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in UNIMPORTANT}
    made = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for name, value in model.state_dict().items():
        if not name.startswith("head."):
            made.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            made.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return made.hexdigest()


def windows_name(windows: Any) -> str:
    if hasattr(windows, "fingerprint"):
        return str(windows.fingerprint())
    made = hashlib.sha256()
    for place in range(len(windows)):
        made.update(windows[place]["input_ids"].contiguous().numpy().data)
    return made.hexdigest()
