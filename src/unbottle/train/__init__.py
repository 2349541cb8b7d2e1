"""Train models on the Trainer of Hugging Face. A run that is killed goes on exactly where it was."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbottle.train.arguments import PRESETS, SUMMARIZE_PRESETS, Settings, SummarizeSettings
    from unbottle.train.callbacks import Preempted
    from unbottle.train.run import Result
    from unbottle.train.tasks import train_lm, train_summarize

__all__ = [
    "PRESETS",
    "SUMMARIZE_PRESETS",
    "Preempted",
    "Result",
    "Settings",
    "SummarizeSettings",
    "train_lm",
    "train_summarize",
]
_MODULES = {
    "PRESETS": "arguments",
    "SUMMARIZE_PRESETS": "arguments",
    "Preempted": "callbacks",
    "Result": "run",
    "Settings": "arguments",
    "SummarizeSettings": "arguments",
    "train_lm": "tasks",
    "train_summarize": "tasks",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: settings are checked without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
