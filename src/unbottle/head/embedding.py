"""Embedding: the global word embeddings w_x and what the model does to their dot products."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from unbottle.ops import Words, widen


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """Output word embeddings, tied to the model's own, with the model's output quirks as data.

    logit(f, x) = cap(scale * f . w_x + bias_x),      cap(z) = softcap * tanh(z / softcap)
    Logits are float32 or wider, whatever the dtype of the weights.
    """

    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None
    scale: float = 1.0
    softcap: float | None = None

    def logits(self, f: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """f . w_x for the whole vocabulary."""
        return self._finish(F.linear(f, self.weight), self.bias)

    def at(self, f: Float[Tensor, "B T D"], words: Words) -> Float[Tensor, "B T S"]:
        """f . w_x for a set of words."""
        rows = self.weight[words.ids]  # B #T S D
        dots = f @ rows[:, 0].mT if words.ids.shape[1] == 1 else (rows @ f[..., None])[..., 0]
        return self._finish(dots, None if self.bias is None else self.bias[words.ids])

    def _finish(self, dots: Tensor, bias: Tensor | None) -> Tensor:
        logits = widen(dots)
        if self.scale != 1.0:
            logits = logits * self.scale
        if bias is not None:
            logits = logits + bias
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap
