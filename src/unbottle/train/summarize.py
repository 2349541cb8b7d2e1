"""train_summarize: an encoder-decoder model, pairs of document and summary, settings."""

from __future__ import annotations

from typing import Any

from transformers import Seq2SeqTrainingArguments

from unbottle.hf.prefix import keep_prefix
from unbottle.train.callbacks import Report
from unbottle.train.refusals import refuse_pairs
from unbottle.train.result import Result
from unbottle.train.run import run
from unbottle.train.summarize_settings import SummarizeSettings
from unbottle.train.task import Task
from unbottle.train.trainer import SummaryTrainer

SUMMARIZE = Task(trainer=SummaryTrainer, arguments=Seq2SeqTrainingArguments, refuse=refuse_pairs)


def train_summarize(
    model: Any,
    train: Any,
    valid: Any,
    settings: SummarizeSettings,
    *,
    report: Report | None = None,
    tokenizer: Any = None,
    data_name: str | None = None,
) -> Result:
    """Train an encoder-decoder model, with a head or without, on pairs; the model itself changes.

    `train` and `valid` (or None) are data sets of {"input_ids", "labels"}, as `unbottle.data.Pairs`; padding is no
    label and does not count. All else is as in `train_lm`: output/model, and a run that was killed goes on. The saved
    config knows the prefix that documents were given, so that they get it again (`unbottle.hf.prefix`). Tokens of the
    result are those of the documents, with padding.
    """
    SUMMARIZE.refuse(model, train, settings)
    prefix = getattr(train, "prefix", settings.prefix)
    if prefix is not None:
        keep_prefix(model, prefix)
    return run(SUMMARIZE, model, train, valid, settings, report=report, tokenizer=tokenizer, data_name=data_name)
