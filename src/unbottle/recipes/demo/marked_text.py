"""marked_text: a stretch of held-out text, token by token: who set the logit of each, and how likely it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unbottle.eval.evaluating import evaluating
from unbottle.hf.explain import spelled
from unbottle.hf.mixin import HeadMixin

READ = 96  # tokens at the start of the window that give no colour: a context needs words before it
SHOWN = 128


def marked_text(models: Mapping[str, Any], tokenizer: Any, window: torch.Tensor) -> dict[str, Any]:
    """The probability that each model gave to the token that stands there, and the partition of the last model."""
    read = min(READ, len(window) // 2)
    tokens = [spelled(tokenizer, word) for word in window[: read + SHOWN].tolist()]
    ids, shown = window[None, : len(tokens)], slice(read - 1, len(tokens) - 1)
    targets = ids[0, read:, None]
    probabilities, partitions = {}, []
    for name, model in models.items():
        asked = {"output_partitions": True} if isinstance(model, HeadMixin) else {}
        with evaluating(model):
            said = model(input_ids=ids.to(model.device), use_cache=False, **asked)
        found = said.logits[0, shown].float().softmax(-1).gather(-1, targets)
        probabilities[name] = [round(value, 6) for value in found[:, 0].tolist()]
        if asked:
            writers = said.partitions[0, shown].gather(-1, targets)[:, 0].tolist()
            partitions = [said.partition_names[writer] for writer in writers]
    return {"read": tokens[:read], "tokens": tokens[read:], "probabilities": probabilities, "partitions": partitions}
