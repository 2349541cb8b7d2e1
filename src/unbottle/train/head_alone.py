"""HeadAlone: a new output layer on a model that stays as it is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unbottle.hf.layers import layers_of
from unbottle.hf.loss import shifted
from unbottle.hf.text import states
from unbottle.hf.training_record import TrainingRecord
from unbottle.train.callbacks import Report, silent
from unbottle.train.everything import MODEL, save_folder
from unbottle.train.settings import RunSettings
from unbottle.train.states import StateStore, open_store

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HeadAlone:
    """The backbone reads every window once, in evaluation mode; the head trains on what it said.

    A stream has no end to read ahead to, and wbwR asks the backbone again at every step: there it reads along. So does
    an encoder-decoder model: what its encoder says about long documents takes more room than most disks have (1,024
    tokens of T5 small are 2 MB).
    """

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Report | None) -> None:
        self.trainable = {name: p.requires_grad for name, p in model.named_parameters()}
        model.requires_grad_(False)
        model.head.requires_grad_(True)
        self.model, self.train, self.valid = FrozenBackbone(model), train, valid
        ahead = hasattr(train, "__len__") and not model.head.config.method.wbwr
        if ahead and not model.config.is_encoder_decoder:
            self.train = stored(model, train, settings, report or silent)
            self.valid = None if valid is None else stored(model, valid, settings, report or silent)

    def save(self, folder: Path, tokenizer: Any, training: TrainingRecord) -> None:
        """All of the model, head and backbone, to folder/model."""
        model = self.model.model
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(self.trainable[name])
        save_folder(folder / MODEL, model, tokenizer, training)


class FrozenBackbone(nn.Module):
    """A model whose head alone is in training mode, and which takes hidden states in place of words to read."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model
        self.loss_type = model.loss_type  # by it the Trainer decides which labels are predicted, and counts them
        self.config = model.config
        self._no_split_modules = model._no_split_modules  # for FSDP2: what may be a piece of its own

    @property
    def head(self) -> Any:
        return self.model.head

    def train(self, mode: bool = True) -> FrozenBackbone:
        self.training = mode
        self.model.eval()
        self.model.head.train(mode)
        return self

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor,
        layers: Tensor | None = None,
        attention_mask: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor]:
        count = num_items_in_batch
        if layers is None:
            said = self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                labels=labels,
                num_items_in_batch=count,
                skip_logits=True,
            )
            return {"loss": said.loss}
        here = states(layers.to(self.model.dtype), input_ids, attention_mask, None, past=None)
        answer = self.model._answer(
            here, past=None, labels=shifted(labels), num_items=count, logits_to_keep=0, skip_logits=True
        )
        return {"loss": answer.loss}


class StoredWindows(Dataset):
    """Windows, each with what the backbone says about it."""

    def __init__(self, windows: Any, store: StateStore) -> None:
        self.windows, self.store = windows, store

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        window = self.windows[place]
        return {**window, "layers": self.store[place][: len(window["input_ids"])]}


def stored(model: Any, windows: Any, settings: RunSettings, report: Report) -> StoredWindows:
    """Windows with hidden states, which are computed now where they are not there yet."""
    folder = Path(settings.states or Path(settings.output) / "states")
    store = open_store(folder, model, windows, DTYPES[settings.states_dtype], settings.precision)
    device = torch.device("cuda") if settings.device == "auto" and torch.cuda.is_available() else model.device
    mixed = settings.precision != "float32"
    context: Any = torch.autocast(device.type, DTYPES[settings.precision]) if mixed else contextlib.nullcontext()
    model.to(device).eval()

    def layers(batch: dict[str, Tensor]) -> Tensor:
        given = {name: value.to(device) for name, value in batch.items() if name != "labels"}
        with context:
            return layers_of(model, given).cpu()

    store.fill(windows, layers, settings.batch, report)
    return StoredWindows(windows, store)
