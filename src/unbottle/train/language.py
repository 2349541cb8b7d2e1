"""train_lm: a language model, windows of text, settings."""

from __future__ import annotations

from typing import Any

from transformers import TrainingArguments

from unbottle.train.callbacks import Report
from unbottle.train.refusals import refuse
from unbottle.train.result import Result
from unbottle.train.run import run
from unbottle.train.settings import Settings
from unbottle.train.task import Task
from unbottle.train.trainer import LanguageTrainer

LANGUAGE = Task(trainer=LanguageTrainer, arguments=TrainingArguments, refuse=refuse)


def train_lm(
    model: Any,
    train: Any,
    valid: Any,
    settings: Settings,
    *,
    report: Report | None = None,
    tokenizer: Any = None,
    data_name: str | None = None,
) -> Result:
    """Train a causal model, with a head or without, on windows of tokens; the model itself changes.

    `train` and `valid` (or None) are data sets of {"input_ids", "labels"}. The trained model is saved to output/model.
    `data_name` is what the model card says about the data: a data set of the Hub is named, a path is not.
    A run that was killed goes on when it is called again: it ends with the weights and losses of one that was not, bit
    for bit, in one process on the same machine.
    """
    return run(LANGUAGE, model, train, valid, settings, report=report, tokenizer=tokenizer, data_name=data_name)
