"""What DeepSpeed ZeRO 2 keeps in pieces of one long vector, whole and by number, as one process would save it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW


def zero_state(optimizer: Any) -> dict[str, Any]:
    """The state of AdamW. Every process must ask at once."""
    from deepspeed.utils import safe_get_full_optimizer_state

    _link(optimizer.optimizer)
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    number = 0
    for group, parameters, step in _groups(optimizer):
        numbers = range(number, number + len(parameters))
        number += len(parameters)
        found["param_groups"].append({**group, "params": [*numbers]})
        for each, parameter in zip(numbers, parameters, strict=True):
            moments = {name: safe_get_full_optimizer_state(parameter, name) for name in MOMENTS}
            found["state"][each] = {"step": step, **moments}
    return found


def set_zero_state(optimizer: Any, state: dict[str, Any]) -> None:
    """The other way round, after the weights were put into the model: the pieces are copies of them, too."""
    from deepspeed.utils import safe_set_full_optimizer_state

    zero = optimizer.optimizer
    for vector, stored, group in zip(
        zero.single_partition_of_fp32_groups, state["param_groups"], zero.optimizer.param_groups, strict=True
    ):
        step = next(state["state"][number]["step"] for number in stored["params"])
        zero.optimizer.state[vector] = {"step": step.clone(), **{name: torch.zeros_like(vector) for name in MOMENTS}}
        group.update({name: value for name, value in stored.items() if name != "params"})
    _link(zero)
    for stored, parameters in zip(state["param_groups"], zero.bit16_groups, strict=True):
        for number, parameter in zip(stored["params"], parameters, strict=True):
            for name in MOMENTS:
                value = state["state"][number][name].to(parameter.device)
                safe_set_full_optimizer_state(parameter, value, name)
    zero.refresh_fp32_params()


def _link(zero: Any) -> None:
    """Parameters learn where their parts of the vectors are.

    DeepSpeed does so after the first step of the first group, when the other groups have no state yet.
    """
    zero._hp_optimizer_states_linked = False
    zero._lazy_init_hp_params_optimizer_state()


def _groups(optimizer: Any) -> Iterator[tuple[dict[str, Any], list[Tensor], Tensor]]:
    """Each group of parameters: its settings, its parameters, and how many steps they took."""
    zero = optimizer.optimizer
    for group, parameters, vector in zip(
        zero.optimizer.param_groups, zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True
    ):
        settings = {name: value for name, value in group.items() if name != "params"}
        yield settings, parameters, zero.optimizer.state[vector]["step"]
