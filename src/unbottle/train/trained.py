"""What can be trained, by name."""

from __future__ import annotations

from typing import Any

from unbottle.train.adapters import Adapters
from unbottle.train.everything import MODEL, Everything
from unbottle.train.head_alone import HeadAlone

__all__ = ["MODEL", "TRAINED"]

TRAINED: dict[str, Any] = {"all": Everything, "head": HeadAlone, "lora": Adapters}
