"""Training on the Hugging Face Trainer. An interrupted run is resumed exactly."""

from typing import TYPE_CHECKING

from unbottle.lazy_import import on_first_use

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

__getattr__ = on_first_use(__name__, __all__, ("presets", "arguments", "callbacks", "run"))  # the first without torch
