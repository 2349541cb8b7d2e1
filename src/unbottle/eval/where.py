"""Where the true next token was: in the context, among the most likely words, or elsewhere."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from unbottle.ops.top import top

CONTEXT, TOP, ELSEWHERE = "context", "top", "elsewhere"


def in_context(ids: Int[Tensor, "T"], targets: Int[Tensor, "T-1"]) -> Bool[Tensor, "T-1"]:
    """Whether targets[t], which follows ids[t], is one of ids[0], ..., ids[t]."""
    return (targets[:, None] == ids[None, :-1]).tril().any(dim=-1)


def in_top(logits: Float[Tensor, "P V"], targets: Int[Tensor, "P"], k: int) -> Bool[Tensor, "P"]:
    """Whether targets are in W(k): the k largest logits, ties to the lower id."""
    words: Tensor = top(logits, min(k, logits.shape[-1]))
    return (words == targets[:, None]).any(dim=-1)
