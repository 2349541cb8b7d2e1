"""The loss of a distribution, with the ecosystem's conventions for labels and averages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from unbottle.head import Distribution
from unbottle.head.distribution import IGNORED


def shifted(labels: Tensor) -> Tensor:
    """Tokens < n predict n: the label of a position is the next one."""
    return F.pad(labels, (0, 1), value=IGNORED)[..., 1:]


def scores_of(distribution: Distribution) -> Tensor:
    """What a model returns as its logits: of the one softmax or, where several are mixed, the log-probabilities."""
    return distribution.logits[0].values if distribution.is_softmax else distribution.log_probs()


def mean_loss(distribution: Distribution, labels: Tensor, num_items: Tensor | int | None = None) -> Tensor:
    """Mean of -log P(label); over `num_items` labels if given, as gradient accumulation needs it.

    A two-stage method adds the loss of its first stage.
    """
    total = distribution.nll(labels).sum()
    if distribution.first_stage is not None:
        total = total + distribution.first_stage.nll(labels).sum()
    count = (labels != IGNORED).sum() if num_items is None else num_items
    return total / (count.to(total.device) if isinstance(count, torch.Tensor) else count)
