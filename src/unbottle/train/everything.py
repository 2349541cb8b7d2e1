"""Everything: all parameters of a model that are not frozen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from unbottle.hf.card import FILE, model_card
from unbottle.hf.mixin import HeadMixin
from unbottle.hf.training_record import TrainingRecord
from unbottle.train.callbacks import Report
from unbottle.train.files import put_folder, whole_disk
from unbottle.train.processes import first_does
from unbottle.train.settings import RunSettings
from unbottle.train.whole import is_split, whole_weights

MODEL = "model"


class Everything:
    """What the Trainer gets, and how the trained model is saved."""

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Report | None) -> None:
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
    with whole_disk(final.parent):
        model.save_pretrained(temporary, **weights)
        if training is not None and isinstance(model, HeadMixin):
            model_card(model, training=training).save(temporary / FILE)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        put_folder(temporary, final)
