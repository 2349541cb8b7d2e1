"""Train models on the Trainer of Hugging Face. A run that is killed goes on exactly where it was."""

from unbottle.train.language import train_lm
from unbottle.train.result import Result
from unbottle.train.settings import PRESETS, Settings
from unbottle.train.summarize import train_summarize
from unbottle.train.summarize_settings import SUMMARIZE_PRESETS, SummarizeSettings

__all__ = [
    "PRESETS",
    "SUMMARIZE_PRESETS",
    "Result",
    "Settings",
    "SummarizeSettings",
    "train_lm",
    "train_summarize",
]
