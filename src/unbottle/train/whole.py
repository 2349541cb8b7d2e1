"""Whole tensors of what FSDP2 keeps in pieces, so that files are the same however many processes wrote them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from unbottle.train.processes import is_first


def whole(value: Tensor) -> Tensor:
    """All of a tensor. Every process must ask at once."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def is_split(model: Any) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def whole_tensors(tensors: dict[str, Any]) -> dict[str, Any]:
    """One after the other, on the CPU of the first process; the others get an empty dict."""
    found = {}
    for name, value in tensors.items():
        all_of_it = whole(value.detach()) if isinstance(value, Tensor) else value
        if is_first():
            found[name] = all_of_it.cpu() if isinstance(all_of_it, Tensor) else all_of_it
    return found


def whole_weights(model: Any) -> dict[str, Any]:
    """All that save_pretrained writes. Weights that are tied stay one tensor under several names."""
    state = model.state_dict()
    owners = {name: id(value) for name, value in model.named_parameters(remove_duplicate=False)}
    first = {owner: name for name, owner in reversed(owners.items())}
    ties = {name: first[owner] for name, owner in owners.items() if name in state}
    found = whole_tensors({name: value for name, value in state.items() if ties.get(name, name) == name})
    return {name: found[ties.get(name, name)] for name in state} if is_first() else {}


@torch.no_grad()
def put(place: Tensor, value: Tensor) -> None:
    """A whole tensor into the memory of `place`; where that is a piece, its piece."""
    place.copy_(_like(value, place))


def whole_state(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer as one process alone would save it."""
    state: dict[str, Any] = optimizer.state_dict()
    return {**state, "state": {number: whole_tensors(values) for number, values in state["state"].items()}}


def split_state(optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The other way round: each tensor is cut as its parameter is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    found = {}
    for number, parameter in zip(numbers, parameters, strict=True):
        values = state["state"].get(number, {})
        found[number] = {
            name: _like(value, parameter) if isinstance(value, Tensor) and value.shape == parameter.shape else value
            for name, value in values.items()
        }
    return {**state, "state": {number: values for number, values in found.items() if values}}


def _like(value: Tensor, place: Tensor) -> Tensor:
    if not isinstance(place, DTensor):
        return value
    return distribute_tensor(value.to(place.device), place.device_mesh, place.placements)
