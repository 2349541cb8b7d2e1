"""knobs: turn what a head lets you turn, for the calls that a thread is making."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from unbottle.head import Knobs
from unbottle.hf.model_with_head import ModelWithHead


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
    from unbottle.hf.attach import with_head  # which imports this file

    target = with_head(model)
    ends = target.generation_config.eos_token_id
    allowed = end_tokens(ends) if always_allowed is None else tuple(always_allowed)
    with knob_scope(target, Knobs(copy_bias=copy_bias, source_only=source_only, always_allowed=allowed)) as turned:
        yield turned


class _Scopes(threading.local):
    """The open scopes of one thread, the innermost last. Other threads have their own, so requests do not mix."""

    def __init__(self) -> None:
        self.open: list[tuple[ModelWithHead, Knobs]] = []


_SCOPES = _Scopes()


@contextmanager
def knob_scope(model: ModelWithHead, knobs: Knobs) -> Iterator[Knobs]:
    """Inside the block this thread calls the model with these knobs."""
    model.head.check_knobs(knobs)
    scopes, here = _SCOPES.open, (model, knobs)
    scopes.append(here)
    try:
        yield knobs
    finally:  # not always the last one: blocks in generators may end in any order, or in another thread
        scopes[:] = [scope for scope in scopes if scope is not here]


def current_knobs(model: ModelWithHead) -> Knobs:
    """The knobs of the innermost scope of this model in this thread; without one, those that are set on its head."""
    scoped = [knobs for owner, knobs in _SCOPES.open if owner is model]
    return scoped[-1] if scoped else model.head.knobs


def call_knobs(
    model: ModelWithHead,
    copy_bias: float | None,
    source_only: bool | None,
    always_allowed: Sequence[int] | None,
    ends: int | Sequence[int] | None = None,
) -> Knobs:
    """The current knobs, changed by what a call names; None is not named.

    `source_only` without `always_allowed` allows the tokens that end a sequence: `ends`, or those of the model.
    """
    before = current_knobs(model)
    if source_only and always_allowed is None and not before.source_only:
        always_allowed = end_tokens(model.generation_config.eos_token_id if ends is None else ends)
    allowed = None if always_allowed is None else tuple(always_allowed)
    named: dict[str, Any] = {"copy_bias": copy_bias, "source_only": source_only, "always_allowed": allowed}
    return replace(before, **{name: value for name, value in named.items() if value is not None})


def end_tokens(ends: int | Sequence[int] | None) -> tuple[int, ...]:
    """eos_token_id as transformers has it: one id, several, or none."""
    if ends is None:
        return ()
    return (ends,) if isinstance(ends, int) else tuple(int(end) for end in ends)
