"""The identity of a model: is this the model of before?

`fingerprint` samples a few weights of the backbone, so that it survives another dtype and ignores the head;
`difference` compares a stored one with a model. `backbone_name`, `model_digest`, `weights_digest` and `checksum` are
strings to store and compare; the last two cover every weight bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

OUTPUT = "output embeddings"
MATRICES, VALUES = 16, 8  # how many matrices, spread over the model, and how many weights of each
EXACT, HALF = 1e-5, 2.0**-7  # relative differences allowed between two float32 models, and if one is rounded
ABSOLUTE = 1e-7  # below this, half precision knows no difference


def fingerprint(model: PreTrainedModel) -> dict[str, Any]:
    """Weights of the output embeddings and of matrices from the first layer to the last, by name."""
    matrices = _matrices(model)
    names = [name for name, weight in matrices.items() if weight.is_floating_point()]
    chosen = [names[place] for place in _spread(len(names), MATRICES)]
    return {
        "dtype": str(matrices[OUTPUT].dtype).removeprefix("torch."),
        "output_embeddings": list(matrices[OUTPUT].shape),
        "weights": {name: _text(_sample(matrices[name])) for name in dict.fromkeys([OUTPUT, *chosen])},
    }


def difference(model: PreTrainedModel, stored: Mapping[str, Any]) -> str | None:
    """How this model differs from the one whose fingerprint was stored, in words; None if it does not.

    Quantised matrices are passed over: their values say nothing, and the output embeddings are never quantised.
    """
    matrices = _matrices(model)
    shape = list(matrices[OUTPUT].shape)
    if shape != stored["output_embeddings"]:
        return f"its output embeddings are {shape}, not {stored['output_embeddings']}"
    exact = stored["dtype"] == "float32" and matrices[OUTPUT].dtype == torch.float32
    for name, expected in stored["weights"].items():
        if name not in matrices:
            return f"it has no {name}"
        if not matrices[name].is_floating_point():
            continue
        here, there = _sample(matrices[name]), torch.tensor([float(value) for value in expected.split()])
        tolerance = EXACT if exact else HALF
        if here.shape != there.shape or not torch.allclose(here, there, rtol=tolerance, atol=ABSOLUTE):
            return f"other values in its {name}"
    return None


def _matrices(model: PreTrainedModel) -> dict[str, Tensor]:
    """The matrices of the base model's checkpoint by their plain names; the head, and what PEFT added, left out."""
    output = model.get_output_embeddings()
    matrices = {OUTPUT: output.weight}
    known = tuple(f"{name}." for name, module in model.named_modules() if module is output)
    computed = set(model._keys_to_ignore_on_save or ())  # sinusoids, which no file holds
    for name, weight in model.named_parameters():
        added = name.startswith("head.") or "lora_" in name or ".modules_to_save." in name
        if weight.ndim > 1 and not added and not name.startswith(known) and name not in computed:
            matrices[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = weight
    return matrices


def _sample(weight: Tensor) -> Tensor:
    flat = weight.detach().reshape(-1)
    return flat[torch.tensor(_spread(flat.numel(), VALUES), device=flat.device)].float().cpu()


def _text(values: Tensor) -> str:
    return " ".join(f"{value:.7g}" for value in values.tolist())


def _spread(count: int, wanted: int) -> list[int]:
    """Places spread evenly over 0 .. count - 1, both ends included."""
    if count <= wanted:
        return list(range(count))
    return [round(step * (count - 1) / (wanted - 1)) for step in range(wanted)]


def backbone_name(model: PreTrainedModel) -> str:
    """A short name of the backbone, from its fingerprint."""
    return _fingerprint_hash(model).hexdigest()[:16]


def checksum(model: nn.Module) -> str:
    """CRC-32 of every weight and its name, those of the head included."""
    value = 0
    for name, weight in model.state_dict().items():
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(_bytes(weight), value)
    return f"{value:08x}"


def weights_digest(model: PreTrainedModel, ignored_config: Iterable[str] = ()) -> str:
    """SHA-256 of every weight under the head, and of the config but for the keys of `ignored_config`."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in ignored_config}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    backbone = {name: weight for name, weight in model.state_dict().items() if not name.startswith("head.")}
    _update(digest, backbone)
    return digest.hexdigest()


def model_digest(model: PreTrainedModel) -> str:
    """SHA-256 of the backbone's fingerprint and of every weight of the head, if there is one."""
    digest = _fingerprint_hash(model)
    head = getattr(model, "head", None)
    if isinstance(head, nn.Module):
        _update(digest, head.state_dict())
    return f"sha256:{digest.hexdigest()}"


def old_model_digest(model: PreTrainedModel) -> str:
    """What earlier versions stored in place of `model_digest`: it sums weights, so it ignores their order."""
    head = getattr(model, "head", None)
    parameters = head.named_parameters() if isinstance(head, nn.Module) else ()
    sums = [(name, parameter.detach().double().sum().item()) for name, parameter in parameters]
    return hashlib.sha256(repr((fingerprint(model), sums)).encode()).hexdigest()[:16]


def _fingerprint_hash(model: PreTrainedModel) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(fingerprint(model), sort_keys=True).encode())


def _update(digest: hashlib._Hash, weights: Mapping[str, Tensor]) -> None:
    for name, weight in weights.items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        digest.update(_bytes(weight))


def _bytes(weight: Tensor) -> memoryview:
    data: memoryview = weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data
    return data
