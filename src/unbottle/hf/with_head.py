"""The model with a head that a caller means, out of whatever wraps it."""

from __future__ import annotations

from typing import Any

from unbottle.hf.attach import innermost
from unbottle.hf.mixin import HeadMixin


def with_head(model: Any) -> HeadMixin:
    """The model inside a PEFT wrapper, or the model itself; refused if it has no head."""
    target = innermost(model)
    if not isinstance(target, HeadMixin):
        raise ValueError(f"{type(target).__name__} has no head. Give it one with unbottle.attach first.")
    return target
