"""knobs: turn what a head lets you turn, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from unbottle.head import Knobs
from unbottle.hf.mixin import HeadMixin
from unbottle.hf.with_head import with_head


@contextmanager
def knobs(
    model: Any, *, copy_bias: float = 0.0, source_only: bool = False, always_allowed: Sequence[int] | None = None
) -> Iterator[Knobs]:
    """Inside a `with` block the model predicts with these knobs: its logits, and so everything in generate().

    See `unbottle.head.Knobs` for what they do. `always_allowed` are the words that source_only never excludes: by
    default the end-of-sequence tokens of the model. What is not named is off, whatever was set before.
    """
    target = with_head(model)
    allowed = _ends(target) if always_allowed is None else tuple(always_allowed)
    before = target.head.knobs
    target.head.knobs = Knobs(copy_bias=copy_bias, source_only=source_only, always_allowed=allowed)
    try:
        yield target.head.knobs
    finally:
        target.head.knobs = before


def _ends(model: HeadMixin) -> tuple[int, ...]:
    """The tokens that end a sequence, as generate() knows them."""
    ends = model.generation_config.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)
