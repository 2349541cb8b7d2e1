"""How pickle and copy take apart a model with a head, whose class no module holds under its name, and rebuild it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from transformers import PreTrainedModel, modeling_utils

REGISTRY = "_CAN_RECORD_REGISTRY"  # of transformers: which outputs can be collected, by class
INSTALLED = "_output_capturing_hooks_installed"  # of transformers: set on a model whose layers have its hooks
CAPTURING = "output_capturing_hook"  # the local function that transformers registers as a hook


def reduced(model: Any, kind: Any, empty: Callable[[type[PreTrainedModel]], object]) -> tuple[object, ...]:
    """What `__reduce_ex__` of `kind`, the class that was made for `model.base_class`, returns.

    `empty` makes an object of that class from the base class, without calling its constructor.
    """
    remove_capturing_hooks(model)
    parts: tuple[object, ...] = super(kind, model).__reduce_ex__(2)
    if type(model) is not kind:  # a class derived from it, which its own module may hold
        return parts
    _, _, *state = parts
    return empty, (model.base_class,), *state


def remove_capturing_hooks(model: nn.Module) -> None:
    """Take away the hooks that collect hidden states: they are local functions, which pickle cannot write.

    transformers registers them when hidden states are first asked for, as Mi does, and so it will again.
    """
    for module in model.modules():
        if module.__dict__.pop(INSTALLED, False):
            for part in module.modules():
                hooks = part._forward_hooks
                for key in [key for key, hook in hooks.items() if getattr(hook, "__name__", "") == CAPTURING]:
                    del hooks[key]


def register_outputs(model: nn.Module) -> None:
    """Tell transformers which outputs it can collect, as the constructors do, which unpickling does not call."""
    registry: dict[str, Any] = getattr(modeling_utils, REGISTRY, {})
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            registry.setdefault(str(type(module)), module._can_record_outputs)
