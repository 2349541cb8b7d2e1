"""What the tests of training share: a few rows of different lengths, and a Trainer that prints nothing."""

from __future__ import annotations

from functools import partial

import torch
from models import PAD, words
from torch import Tensor
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

LENGTHS = (9, 4, 7, 5)


def rows(*, encoder_decoder: bool) -> list[dict[str, Tensor]]:
    """Four texts; a decoder's labels are its ids with the first two left out, as in a prompt."""
    made = []
    for number, length in enumerate(LENGTHS):
        ids = words(1, length, seed=number)[0]
        labels = words(1, LENGTHS[-1 - number], seed=10 + number)[0] if encoder_decoder else ids.clone()
        if not encoder_decoder:
            labels[: number % 3] = -100
        made.append({"input_ids": ids, "labels": labels})
    return made


def collate(model, features: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One batch, padded on the right."""

    def padded(name: str, value: int) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([row[name] for row in features], batch_first=True, padding_value=value)

    lengths = torch.tensor([[len(row["input_ids"])] for row in features])
    batch = {"input_ids": padded("input_ids", PAD), "labels": padded("labels", -100)}
    batch["attention_mask"] = (torch.arange(batch["input_ids"].shape[1]) < lengths).long()
    if model.config.is_encoder_decoder:  # as DataCollatorForSeq2Seq: label smoothing takes the labels away
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    return batch


def without_dropout(model):
    """Random numbers would be drawn in another order with other batches."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model


def trainer(model, folder, *, callbacks=(), **options) -> Trainer:
    """Plain gradient descent on the four rows: one step of size 1, unless told otherwise."""
    encoder_decoder = model.config.is_encoder_decoder
    kind, settings = (Seq2SeqTrainer, Seq2SeqTrainingArguments) if encoder_decoder else (Trainer, TrainingArguments)
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "dataloader_pin_memory": False}
    defaults = {
        "optim": "sgd",
        "learning_rate": 1.0,
        "max_grad_norm": 0.0,
        "lr_scheduler_type": "constant",
        "max_steps": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "per_device_train_batch_size": 4,
    }
    data = rows(encoder_decoder=encoder_decoder)
    return kind(
        model=without_dropout(model),
        args=settings(output_dir=str(folder), **quiet | defaults | options),
        train_dataset=data,
        eval_dataset=data,
        data_collator=partial(collate, model),
        callbacks=[*callbacks],
    )
