"""Knobs of the calls that a thread is making: what `unbottle.knobs` and generate() set for their duration."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from unbottle.head import Knobs
from unbottle.hf.model_with_head import ModelWithHead


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
    return replace(
        before,
        copy_bias=before.copy_bias if copy_bias is None else copy_bias,
        source_only=before.source_only if source_only is None else source_only,
        always_allowed=before.always_allowed if allowed is None else allowed,
    )


def end_tokens(ends: int | Sequence[int] | None) -> tuple[int, ...]:
    """eos_token_id as transformers has it: one id, several, or none."""
    if ends is None:
        return ()
    return (ends,) if isinstance(ends, int) else tuple(int(end) for end in ends)
