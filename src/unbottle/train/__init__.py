"""Train language models on the Trainer of Hugging Face. A run that is killed goes on exactly where it was."""

from unbottle.train.result import Result
from unbottle.train.run import train_lm
from unbottle.train.settings import PRESETS, Settings

__all__ = ["PRESETS", "Result", "Settings", "train_lm"]
