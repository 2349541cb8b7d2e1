"""Task: what differs between training a language model and training a summarizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import TrainingArguments

from unbottle.train.trainer import ExactTrainer


@dataclass(frozen=True, kw_only=True)
class Task:
    """`refuse` says what can not be trained, before anything is touched."""

    trainer: type[ExactTrainer]
    arguments: type[TrainingArguments]
    refuse: Callable[[Any, Any, Any], None]  # model, train, settings
