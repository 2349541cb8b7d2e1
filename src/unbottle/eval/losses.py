"""losses_of: -log p of true tokens, from what a model calls logits."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def losses_of(logits: Float[Tensor, "P V"], targets: Int[Tensor, "P"]) -> Float[Tensor, "P"]:
    """log sum_x exp logit(x) - logit(target). What a mixture calls logits are log-probabilities, whose sum is one."""
    values = logits if logits.dtype == torch.float64 else logits.float()
    return values.logsumexp(dim=-1) - values.gather(-1, targets[:, None])[:, 0]
