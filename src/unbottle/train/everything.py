"""Everything: all parameters of a model that are not frozen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from unbottle.train.callbacks import Report
from unbottle.train.files import put_folder, whole_disk
from unbottle.train.settings import RunSettings

MODEL = "model"


class Everything:
    """What the Trainer gets, and how the trained model is saved."""

    def __init__(self, model: Any, train: Any, valid: Any, settings: RunSettings, report: Report | None) -> None:
        self.model, self.train, self.valid = model, train, valid

    def save(self, folder: Path, tokenizer: Any) -> None:
        """To folder/model, as a whole."""
        save_folder(folder / MODEL, self.model, tokenizer)


def save_folder(final: Path, *parts: Any) -> None:
    """What save_pretrained writes, under its name only when all of it is there."""
    temporary = final.with_name(f".{final.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    with whole_disk(final.parent):
        for part in parts:
            if part is not None:
                part.save_pretrained(temporary)
        put_folder(temporary, final)
