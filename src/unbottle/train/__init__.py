"""Train models on the Trainer of Hugging Face. A run that is killed goes on exactly where it was."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbottle.train.language import train_lm
    from unbottle.train.preemption import Preempted
    from unbottle.train.result import Result
    from unbottle.train.settings import PRESETS, Settings
    from unbottle.train.summarize import train_summarize
    from unbottle.train.summarize_settings import SUMMARIZE_PRESETS, SummarizeSettings

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
    "PRESETS": "settings",
    "SUMMARIZE_PRESETS": "summarize_settings",
    "Preempted": "preemption",
    "Result": "result",
    "Settings": "settings",
    "SummarizeSettings": "summarize_settings",
    "train_lm": "language",
    "train_summarize": "summarize",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: settings are checked without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
