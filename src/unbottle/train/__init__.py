"""Training on the Hugging Face Trainer. An interrupted run is resumed exactly."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbottle.train.arguments import LMTrainingArguments, SummarizeTrainingArguments
    from unbottle.train.callbacks import Preempted
    from unbottle.train.presets import PRESETS, SUMMARIZE_PRESETS, Settings, SummarizeSettings
    from unbottle.train.run import Result, train_lm, train_summarize

__all__ = [
    "PRESETS",
    "SUMMARIZE_PRESETS",
    "LMTrainingArguments",
    "Preempted",
    "Result",
    "Settings",
    "SummarizeSettings",
    "SummarizeTrainingArguments",
    "train_lm",
    "train_summarize",
]
_MODULES = ("presets", "arguments", "callbacks", "run")  # the first imports neither torch nor transformers


def __getattr__(name: str) -> object:
    """Import on first use: presets and their values are checked without torch."""
    if name in __all__:
        for part in _MODULES:
            if hasattr(module := importlib.import_module(f"{__name__}.{part}"), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
