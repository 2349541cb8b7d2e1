"""Adapters: LoRA on the backbone by PEFT, and the head in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.pytorch_utils import Conv1D

from unbottle.hf.mixin import HeadMixin
from unbottle.hf.training_record import TrainingRecord
from unbottle.train.callbacks import Report
from unbottle.train.everything import MODEL, save_folder
from unbottle.train.settings import RunSettings

ADAPTER = "adapter"


class Adapters:
    """Saves folder/adapter, for PEFT and the base model, and folder/model, where the adapters are merged in."""

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Report | None) -> None:
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
