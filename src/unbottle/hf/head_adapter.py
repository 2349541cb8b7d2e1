"""save_head, load_head: the head alone, in a file that names the base model it belongs to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import cached_file

from unbottle.head import Head, HeadConfig
from unbottle.hf.attach import detach, equip, innermost, refuse, sizes, with_head
from unbottle.hf.checkpoint import refuse_broken_values
from unbottle.hf.configuration import BASE_NAME, BASE_TYPE, stored_head
from unbottle.hf.integrations.guards import trained_head
from unbottle.hf.model_card import write_head_card
from unbottle.hf.model_identity import difference, fingerprint
from unbottle.hf.model_with_head import ModelT

CONFIG, WEIGHTS = "head_config.json", "head_model.safetensors"
PRINT, CHECKSUM = "base_fingerprint", "weights_sha256"
_AGAIN = "Save the head again, or download it again."
KEYS = {"head": dict, BASE_NAME: str, BASE_TYPE: str, PRINT: dict, CHECKSUM: str}


def save_head(model: object, path: str | Path) -> None:
    """Write the head of a model, without the model: `head_config.json`, `head_model.safetensors` and a model card."""
    target = with_head(model)
    head = trained_head(target.head)
    data = {
        "head": head.config.to_dict(),
        BASE_NAME: getattr(target.config, BASE_NAME),
        BASE_TYPE: target.config.model_type,
        PRINT: fingerprint(target),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
    weights = bytes_of(tensors, metadata={"config_sha256": _checksum(data)})
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / WEIGHTS).write_bytes(weights)
    data[CHECKSUM] = hashlib.sha256(weights).hexdigest()
    (directory / CONFIG).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    write_head_card(target, head, directory)


def load_head(model: ModelT, path: str | Path, *, force: bool = False, revision: str | None = None) -> ModelT:
    """Give a live base model the head that `save_head` wrote, from a directory or the Hub.

    A head belongs to the weights it was trained on, so any other base is refused. `force` takes it nevertheless, as
    long as the shapes fit.
    """
    target = innermost(model)
    refuse(target)
    data = _read_config(_file(path, CONFIG, revision))
    tensors = _read_weights(_file(path, WEIGHTS, revision), data)
    config = stored_head(data["head"], f"{path}/{CONFIG}, 'head'")
    _refuse_wrong_tensors(tensors, config, f"{path}/{WEIGHTS}")
    refuse_broken_values(f"{path}/{WEIGHTS}", tensors)
    _refuse_wrong_base(target, config, data, f"{path}/{CONFIG}", force)
    equip(target, replace(config, **sizes(target)))
    try:
        target.head.load_state_dict(tensors)
    except Exception:
        detach(target)
        raise
    return model


def _checksum(data: dict) -> str:
    """Of everything in the config that matters. Where the base model lies may change."""
    kept = {key: value for key, value in data.items() if key not in (BASE_NAME, CHECKSUM)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _file(path: str | Path, name: str, revision: str | None) -> Path:
    if Path(path).is_dir() and not (Path(path) / name).is_file():
        raise FileNotFoundError(f"{path} has no {name}: expected a directory written by unbottle.save_head.")
    file = cached_file(str(path), name, revision=revision)
    assert file is not None  # it raises what went wrong
    return Path(file)


def _read_config(path: Path) -> dict:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}). It is truncated or was edited: {_AGAIN}") from error
    if not isinstance(data, dict) or set(data) != set(KEYS):
        keys = ", ".join(sorted(data)) if isinstance(data, dict) else repr(data)
        raise ValueError(f"{path} has the keys {keys}; expected exactly {', '.join(KEYS)}. {_AGAIN}")
    for name, kind in KEYS.items():
        if type(data[name]) is not kind:
            raise ValueError(f"{path}: {name} is {data[name]!r}, expected {kind.__name__}. {_AGAIN}")
    return data


def _read_weights(path: Path, data: dict) -> dict[str, Tensor]:
    weights = path.read_bytes()
    if hashlib.sha256(weights).hexdigest() != data[CHECKSUM]:
        raise ValueError(f"{path} is not the file that {CONFIG} describes: it is truncated or was edited. {_AGAIN}")
    try:
        tensors = tensors_of(weights)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file ({error}). {_AGAIN}") from error
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    if header.get("__metadata__", {}).get("config_sha256") != _checksum(data):
        raise ValueError(f"{path.with_name(CONFIG)} was edited after it was saved. {_AGAIN}")
    return tensors


def _refuse_wrong_tensors(tensors: dict[str, Tensor], config: HeadConfig, where: str) -> None:
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in Head(config).state_dict().items()}
    stored = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(set(expected) | set(stored)):
        if expected.get(name) != stored.get(name):
            raise ValueError(
                f"{where}: {name} is {stored.get(name, 'missing')}, but the head {str(config.method)!r} expects "
                f"{expected.get(name, 'no such tensor')}. {_AGAIN}"
            )


def _refuse_wrong_base(model: PreTrainedModel, config: HeadConfig, data: dict, where: str, force: bool) -> None:
    base = repr(data[BASE_NAME]) if data[BASE_NAME] else f"a {data[BASE_TYPE]} model"
    for name, value in sizes(model).items():
        if getattr(config, name) != value and name != "vocabulary":  # no weight of a head depends on the vocabulary
            raise ValueError(
                f"{where}: this head was made for {name}={getattr(config, name)}, and this {type(model).__name__} has "
                f"{value}. It needs the model it was trained on, {base}."
            )
    if not force and (what := difference(model, data[PRINT])):
        raise ValueError(
            f"{where}: this head was trained on {base}, and this {type(model).__name__} is another model: {what}. Load "
            "the one it was trained on; force=True takes this one nevertheless."
        )
