"""train_lm: a language model, windows of text, settings.

train_summarize: an encoder-decoder model, pairs of document and summary, settings.
"""

from __future__ import annotations

from typing import Any

from transformers import Seq2SeqTrainingArguments, TrainingArguments

from unbottle.hf.pretrained import keep_prefix
from unbottle.progress import Progress
from unbottle.train.arguments import Settings, SummarizeSettings
from unbottle.train.modes import Task
from unbottle.train.run import Result, refuse, refuse_pairs, run
from unbottle.train.trainer import LanguageTrainer, SummaryTrainer

LANGUAGE = Task(trainer=LanguageTrainer, arguments=TrainingArguments, refuse=refuse)


def train_lm(
    model: Any,
    train: Any,
    valid: Any,
    settings: Settings,
    *,
    report: Progress | None = None,
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


SUMMARIZE = Task(trainer=SummaryTrainer, arguments=Seq2SeqTrainingArguments, refuse=refuse_pairs)


def train_summarize(
    model: Any,
    train: Any,
    valid: Any,
    settings: SummarizeSettings,
    *,
    report: Progress | None = None,
    tokenizer: Any = None,
    data_name: str | None = None,
) -> Result:
    """Train an encoder-decoder model, with a head or without, on pairs; the model itself changes.

    `train` and `valid` (or None) are data sets of {"input_ids", "labels"}, as `unbottle.data.Pairs`; padding is no
    label and does not count. All else is as in `train_lm`: output/model, and a run that was killed goes on. The saved
    config knows the prefix that documents were given, so that they get it again (`unbottle.hf.pretrained`). Tokens of
    the result are those of the documents, with padding.
    """
    SUMMARIZE.refuse(model, train, settings)
    prefix = getattr(train, "prefix", settings.prefix)
    if prefix is not None:
        keep_prefix(model, prefix)
    return run(SUMMARIZE, model, train, valid, settings, report=report, tokenizer=tokenizer, data_name=data_name)
