"""PEFT: modules_to_save=["head"] means the head, and nothing else.

PEFT compares the endings of names, so "head" would also copy, untie and train lm_head: an adapter as large as the
vocabulary. When PEFT has wrapped a model it leaves its configs there; then lm_head is given back, unless it was named.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

WRAPPER = "ModulesToSaveWrapper"


def release_output(model: nn.Module, configs: object) -> None:
    """Undo what PEFT did to modules whose names only end in "head"."""
    if not isinstance(configs, Mapping):
        return
    named = {ending for config in configs.values() for ending in getattr(config, "modules_to_save", None) or ()}
    for name, module in list(model.named_children()):
        taken = type(module).__name__ == WRAPPER and name != "head" and name.endswith("head")
        if taken and not any(name.endswith(ending) for ending in named - {"head"}):
            setattr(model, name, module.original_module)
