"""What can be trained, by name."""

from __future__ import annotations

from typing import Any

from unbottle.train.everything import MODEL, Everything

__all__ = ["MODEL", "TRAINED"]

TRAINED: dict[str, Any] = {"all": Everything}
