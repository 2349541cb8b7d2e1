"""Hidden states of a frozen backbone, computed once for each window and kept on disk.

Use `cache_hidden_states` to get windows with their hidden states, from which the head is trained.
"""

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
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import Dataset

from unbottle.files import LOCK, explain_full_disk, file_lock, read_json, replace_file, write_json
from unbottle.hf.head_inputs import layers_of
from unbottle.hf.model_identity import weights_digest
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress
from unbottle.train.arguments import HeadTrainingArguments
from unbottle.train.distributed import Row, barrier, is_first, on_first_process, rank, world_size
from unbottle.train.presets import RunSettings
from unbottle.train.trainer import collate

SHARD = 256 << 20  # bytes
LAYERS, MANIFEST, FORMAT = "layers", "states.json", 2
STORE, CHECKSUM = "store", "crc32"  # in the header of each file
UNIMPORTANT = ("_name_or_path", "architectures", "transformers_version", "use_cache", "unbottle")  # of a config


@runtime_checkable
class Windows(Protocol):
    """Rows of {"input_ids", "labels"}, as unbottle.data.Windows."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...


class StateStore:
    """Hidden states of windows x tokens x layers x hidden size, in memory-mapped files.

    The folder is named by a hash of everything that the states depend on. Each file has that name too, and a checksum:
    one that was truncated, edited or copied from elsewhere is computed again. An incomplete store is completed; of
    several runs that share it, one computes and the others wait.
    """

    def __init__(self, folder: Path, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
        self.folder, self.shape, self.dtype = folder, shape, dtype
        self.per_shard = max(1, SHARD // (shape[1] * shape[2] * shape[3] * dtype.itemsize))
        self.shards = -(-shape[0] // self.per_shard)
        self._open: dict[int, Any] = {}  # slices of safetensors files

    def __getitem__(self, index: int) -> Tensor:
        """The hidden states of one window, T L D."""
        shard, row = divmod(index, self.per_shard)
        if shard not in self._open:
            self._open[shard] = safe_open(self._file(shard), framework="pt").get_slice(LAYERS)
        layers: Tensor = self._open[shard][row : row + 1]
        return layers[0]

    @torch.no_grad()
    def fill(self, windows: Windows, layers: Callable[[Row], Tensor], batch_size: int, report: Progress) -> None:
        """Compute and write what is missing. Several processes share the files of the store among them."""
        with file_lock(self.folder / LOCK) if is_first() else contextlib.nullcontext():
            missing = on_first_process(self._missing)
            mine = missing[rank() :: world_size()]
            for done, shard in enumerate(mine):
                indices = range(shard * self.per_shard, min((shard + 1) * self.per_shard, self.shape[0]))
                states = torch.zeros(len(indices), *self.shape[1:], dtype=self.dtype)
                for start in range(0, len(indices), batch_size):
                    batch = layers(collate([windows[index] for index in indices[start : start + batch_size]]))
                    states[start : start + len(batch), : batch.shape[1]] = batch.to(self.dtype)
                    work = done + (start + len(batch)) / len(indices)
                    report(work, len(mine), f"hidden states, part {shard + 1} of {self.shards}")
                temporary = self._file(shard).with_suffix(".writing")
                with explain_full_disk(self.folder):
                    save_file({LAYERS: states}, temporary, {STORE: self.folder.name, CHECKSUM: _checksum(states)})
                    replace_file(temporary, self._file(shard))
            barrier()

    def _missing(self) -> list[int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [shard for shard in range(self.shards) if not self._is_intact(shard)]
        self._check_disk_space(len(missing))
        return missing

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.safetensors"

    def _is_intact(self, shard: int) -> bool:
        """Whether a file exists and has the right content. Warns of one that is something else."""
        rows = min(self.per_shard, self.shape[0] - shard * self.per_shard)
        if not self._file(shard).exists():
            return False
        try:
            with safe_open(self._file(shard), framework="pt") as file:
                states, header = file.get_tensor(LAYERS), file.metadata() or {}
        except (OSError, SafetensorError) as error:
            problem = f"it cannot be read: {error}"
        else:
            if header.get(STORE) != self.folder.name or list(states.shape) != [rows, *self.shape[1:]]:
                problem = "it belongs to another model, text or version"
            elif header.get(CHECKSUM) != _checksum(states):
                problem = "it was edited"
            else:
                return True
        warnings.warn(
            f"{self._file(shard)} is not used ({problem}): these hidden states are computed again.", stacklevel=2
        )
        return False

    def _check_disk_space(self, missing: int) -> None:
        size = self.shape[1] * self.shape[2] * self.shape[3] * self.dtype.itemsize
        needed, free = missing * min(self.per_shard, self.shape[0]) * size, shutil.disk_usage(self.folder).free
        if needed > free:
            raise OSError(
                f"the hidden states need {needed / 1e9:.1f} GB in {self.folder}, with {free / 1e9:.1f} GB free: set "
                "hidden_states_dir to a folder with more room or hidden_states_dtype to bfloat16, or give less text."
            )


def is_cacheable(model: HeadMixin) -> bool:
    """Whether the hidden states of a window are all that the head reads, and fit on a disk.

    wbwR asks the backbone again; the encoder states of long documents take more room than most disks have (1,024 tokens
    of T5 small are 2 MB).
    """
    return not model.head.config.method.wbwr and not model.config.is_encoder_decoder


def open_store(folder: Path, model: HeadMixin, windows: Windows, dtype: torch.dtype, precision: str) -> StateStore:
    """The store of these windows under this model; it may be empty."""
    depth, size = model.head.config.block[0], model.head.config.hidden_size
    length = max(len(windows[index]["input_ids"]) for index in range(len(windows)))
    shape = (len(windows), length, depth, size)
    name = on_first_process(lambda: _claim_folder(folder, model, windows, shape, dtype, precision))
    return StateStore(folder / name, shape, dtype)


def _claim_folder(
    folder: Path, model: HeadMixin, windows: Windows, shape: tuple[int, ...], dtype: torch.dtype, precision: str
) -> str:
    """Create the folder of a store, named by what the states depend on. Refuses one whose manifest says otherwise."""
    contents = {
        "format": FORMAT,
        "versions": {name: importlib.metadata.version(name) for name in ("unbottle", "torch", "transformers")},
        "model": weights_digest(model, UNIMPORTANT),
        "windows": windows_hash(windows),
        "shape": list(shape),
        "dtype": str(dtype),
        "precision": precision,
    }
    name = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]
    (folder / name).mkdir(parents=True, exist_ok=True)
    manifest = folder / name / MANIFEST
    if manifest.exists() and (stored := read_json(manifest)) != contents:
        names = [name for name in contents if not isinstance(stored, dict) or stored.get(name) != contents[name]]
        raise ValueError(
            f"{manifest}: these hidden states belong to something else ({', '.join(names)} differ): the folder was "
            f"renamed or edited. Delete {manifest.parent}, or set hidden_states_dir to another folder."
        )
    write_json(manifest, contents)
    return name


def _checksum(states: Tensor) -> str:
    return f"{zlib.crc32(states.contiguous().view(torch.uint8).numpy().data):08x}"


def windows_hash(windows: Windows) -> str:
    if hasattr(windows, "fingerprint"):
        return str(windows.fingerprint())
    digest = hashlib.sha256()
    for index in range(len(windows)):
        digest.update(windows[index]["input_ids"].contiguous().numpy().data)
    return digest.hexdigest()


class WindowsWithStates(Dataset[Row]):
    """Windows, each with the hidden states of the backbone under the key `layers`."""

    def __init__(self, windows: Windows, store: StateStore) -> None:
        self.windows: Any = windows  # with attributes of its own
        self.store = store

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Row:
        window = self.windows[index]
        return {**window, LAYERS: self.store[index][: len(window["input_ids"])]}


def cache_hidden_states(
    model: HeadMixin, windows: Windows, args: HeadTrainingArguments | RunSettings, report: Progress
) -> WindowsWithStates:
    """Windows with hidden states. Those that are not in the cache yet are computed now."""
    args = args if isinstance(args, HeadTrainingArguments) else args.arguments()
    folder = Path(args.hidden_states_dir or Path(str(args.output_dir)) / "states")
    precision = "bfloat16" if args.bf16 else "float16" if args.fp16 else "float32"
    store = open_store(folder, model, windows, getattr(torch, args.hidden_states_dtype), precision)
    device = torch.device("cuda") if torch.cuda.is_available() and not args.use_cpu else model.device
    mixed = torch.autocast(device.type, getattr(torch, precision), enabled=precision != "float32")
    model.to(device).eval()

    def layers(batch: Row) -> Tensor:
        with mixed:
            return layers_of(model, {name: v.to(device) for name, v in batch.items() if name != "labels"}).cpu()

    store.fill(windows, layers, args.batch_size, report)
    return WindowsWithStates(windows, store)
