"""knobs: turn what a head lets you turn, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unbottle.head import Knobs
from unbottle.hf.attach import with_head
from unbottle.hf.knob_scope import end_tokens, knob_scope


@contextmanager
def knobs(
    model: object, *, copy_bias: float = 0.0, source_only: bool = False, always_allowed: Sequence[int] | None = None
) -> Iterator[Knobs]:
    """Inside a `with` block the model predicts with these knobs: its logits, and so everything in generate().

    Short for the same arguments in every call: `model(..., copy_bias=1.0)`, `model.generate(..., copy_bias=1.0)`. Only
    calls of the thread that entered the block count; a thread that is started inside needs arguments or a block of its
    own. See `unbottle.Knobs` for what knobs do. `always_allowed` are the words that source_only never excludes: by
    default the end-of-sequence tokens of the model. What is not named is off, whatever was set before.
    """
    target = with_head(model)
    ends = target.generation_config.eos_token_id
    allowed = end_tokens(ends) if always_allowed is None else tuple(always_allowed)
    with knob_scope(target, Knobs(copy_bias=copy_bias, source_only=source_only, always_allowed=allowed)) as turned:
        yield turned
