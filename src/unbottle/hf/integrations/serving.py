"""served: `transformers serve` finds a class with a head by its name."""

from __future__ import annotations

import sys
from types import ModuleType

import transformers


def served(model_class: type) -> None:
    """The server takes the class that config.json names from the module transformers, so it must be there.

    That module may exist twice: one of its own files loads it once more, and who imported it before keeps the first.
    """
    holders = [getattr(module, "__dict__", {}).get("transformers") for module in [*sys.modules.values()]]
    for module in [transformers, *holders]:
        if isinstance(module, ModuleType) and module.__name__ == "transformers":
            setattr(module, model_class.__name__, model_class)
