"""Task: what differs between training a language model and training a summarizer.

Everything: all parameters of a model that are not frozen.

Adapters: LoRA on the backbone by PEFT, and the head in full.

HeadAlone: a new output layer on a model that stays as it is.

What can be trained, by name.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import TrainingArguments
from transformers.pytorch_utils import Conv1D

from unbottle.files import explain_full_disk, replace_folder
from unbottle.hf.head_inputs import layers_of, states
from unbottle.hf.model_card import FILE, TrainingRecord, model_card
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.outputs import shifted
from unbottle.progress import Progress
from unbottle.train.arguments import RunSettings
from unbottle.train.callbacks import silent
from unbottle.train.distributed import first_does, is_split, whole_weights
from unbottle.train.hidden_state_cache import StateStore, open_store
from unbottle.train.trainer import ExactTrainer


@dataclass(frozen=True, kw_only=True)
class Task:
    """`refuse` says what can not be trained, before anything is touched."""

    trainer: type[ExactTrainer]
    arguments: type[TrainingArguments]
    refuse: Callable[[Any, Any, Any], None]  # model, train, settings


MODEL = "model"


class Everything:
    """What the Trainer gets, and how the trained model is saved."""

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Progress | None) -> None:
        self.model, self.train, self.valid = model, train, valid

    def save(self, folder: Path, tokenizer: Any, training: TrainingRecord) -> None:
        """To folder/model, as a whole."""
        save_folder(folder / MODEL, self.model, tokenizer, training)


def save_folder(final: Path, model: Any, tokenizer: Any = None, training: TrainingRecord | None = None) -> None:
    """What save_pretrained writes, under its name only when all of it is there. The card of a model with a head has the
    numbers of its training."""
    weights = {"state_dict": whole_weights(model)} if is_split(model) else {}
    first_does(lambda: _write(final, model, tokenizer, training, weights))


def _write(final: Path, model: Any, tokenizer: Any, training: TrainingRecord | None, weights: dict[str, Any]) -> None:
    temporary = final.with_name(f".{final.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    with explain_full_disk(final.parent):
        model.save_pretrained(temporary, **weights)
        if training is not None and isinstance(model, HeadMixin):
            model_card(model, training=training).save(temporary / FILE)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        replace_folder(temporary, final)


ADAPTER = "adapter"


class Adapters:
    """Saves folder/adapter, for PEFT and the base model, and folder/model, where the adapters are merged in."""

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Progress | None) -> None:
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError as error:
            raise ValueError("train 'lora' needs PEFT: pip install 'unbottle[train]'") from error
        has_head = isinstance(model, HeadMixin)
        config = LoraConfig(
            task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]  # any number will do
            target_modules="all-linear",
            exclude_modules=r"head\..*" if has_head else None,  # the head is trained as a whole
            modules_to_save=["head"] if has_head else None,
            fan_in_fan_out=any(isinstance(part, Conv1D) for part in model.modules()),  # GPT-2 stores its matrices so
        )
        self.model, self.train, self.valid = get_peft_model(model, config), train, valid

    def save(self, folder: Path, tokenizer: Any, training: TrainingRecord) -> None:
        save_folder(folder / ADAPTER, self.model)
        save_folder(folder / MODEL, self.model.merge_and_unload(), tokenizer, training)


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HeadAlone:
    """The backbone reads every window once, in evaluation mode; the head trains on what it said.

    A stream has no end to read ahead to, and wbwR asks the backbone again at every step: there it reads along. So does
    an encoder-decoder model: what its encoder says about long documents takes more room than most disks have (1,024
    tokens of T5 small are 2 MB).
    """

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Progress | None) -> None:
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


def stored(model: Any, windows: Any, settings: RunSettings, report: Progress) -> StoredWindows:
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


__all__ = ["MODEL", "TRAINED"]

TRAINED: dict[str, Any] = {"all": Everything, "head": HeadAlone, "lora": Adapters}
