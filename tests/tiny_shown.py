"""Models as the page shows them: two tiny causal ones, and one that summarizes."""

from __future__ import annotations

import functools

import tiny_causal
import tiny_summaries
from frozen import models

from unbottle.app.predictions import ShownModel
from unbottle.eval.next_words import PROMPTS

METHODS = {"plain": "plain", "cpr": "softmax+cpr:3,9+mi"}
EXTRA = 7  # rows of the output layer that no token belongs to


@functools.cache
def spelling():
    return tiny_causal.tokenizer([str(prompt) for prompt in PROMPTS] * 3)


@functools.cache
def causal() -> tuple[ShownModel, ...]:
    """Both with logits that are wider than the tokenizer."""
    tokenizer = spelling()
    return tuple(
        ShownModel(name=name, model=tiny_causal.model(method, len(tokenizer) + EXTRA), tokenizer=tokenizer)
        for name, method in METHODS.items()
    )


@functools.cache
def softmax_beside_cpr() -> tuple[ShownModel, ...]:
    """Two heads, of which one copies."""
    tokenizer = spelling()
    softmax = tiny_causal.model("softmax", len(tokenizer) + EXTRA)
    return ShownModel(name="softmax", model=softmax, tokenizer=tokenizer), causal()[1]


@functools.cache
def encoder_decoder() -> tuple[ShownModel, ...]:
    model = tiny_summaries.model("t5", "s+cepr:20").eval()
    models.fill(model)  # the same words with every version of transformers
    return (ShownModel(name="cepr", model=model, tokenizer=tiny_summaries.tokenizer()),)
