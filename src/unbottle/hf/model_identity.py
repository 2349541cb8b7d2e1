"""Fingerprint: a few weights of a model, enough to tell it from any other, in whatever dtype it was loaded.

A checksum of all weights: is this the model of before, bit for bit?
"""

from __future__ import annotations

import zlib
from typing import TypedDict

import torch
from torch import Tensor
from transformers import PreTrainedModel

OUTPUT = "output embeddings"
MATRICES, VALUES = 16, 8  # how many matrices, spread over the model, and how many weights of each
EXACT, HALF = 1e-5, 2.0**-7  # relative differences allowed between two float32 models, and if one is rounded
ABSOLUTE = 1e-7  # below this, half precision knows no difference


class Fingerprint(TypedDict):
    dtype: str
    output_embeddings: list[int]
    weights: dict[str, str]


def fingerprint(model: PreTrainedModel) -> Fingerprint:
    """Weights of the output embeddings and of matrices from the first layer to the last, by name."""
    matrices = _matrices(model)
    names = [name for name, weight in matrices.items() if weight.is_floating_point()]
    chosen = [names[place] for place in _spread(len(names), MATRICES)]
    return {
        "dtype": str(matrices[OUTPUT].dtype).removeprefix("torch."),
        "output_embeddings": list(matrices[OUTPUT].shape),
        "weights": {name: _text(_sample(matrices[name])) for name in dict.fromkeys([OUTPUT, *chosen])},
    }


def difference(model: PreTrainedModel, stored: Fingerprint) -> str | None:
    """What tells this model from the one whose fingerprint was stored, in words; None if it is the same one.

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
        found, stood = _sample(matrices[name]), torch.tensor([float(value) for value in expected.split()])
        tolerance = EXACT if exact else HALF
        if found.shape != stood.shape or not torch.allclose(found, stood, rtol=tolerance, atol=ABSOLUTE):
            return f"other values in its {name}"
    return None


def _matrices(model: PreTrainedModel) -> dict[str, Tensor]:
    """The matrices of the base model's checkpoint by their plain names; the head, and what PEFT added, left out."""
    output = model.get_output_embeddings()
    found = {OUTPUT: output.weight}
    known = tuple(f"{name}." for name, module in model.named_modules() if module is output)
    computed = set(model._keys_to_ignore_on_save or ())  # sinusoids, which no file holds
    for name, weight in model.named_parameters():
        added = name.startswith("head.") or "lora_" in name or ".modules_to_save." in name
        if weight.ndim > 1 and not added and not name.startswith(known) and name not in computed:
            found[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = weight
    return found


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


def checksum(model: PreTrainedModel) -> str:
    """Of every weight and its name, head and all. Unlike a fingerprint it sees any change."""
    found = 0
    for name, value in model.state_dict().items():
        found = zlib.crc32(name.encode(), found)
        found = zlib.crc32(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"
