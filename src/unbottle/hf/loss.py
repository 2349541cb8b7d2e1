"""The loss of a distribution, with the ecosystem's conventions for labels and averages."""

from __future__ import annotations

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


def divisor(labels: Tensor, num_items: Tensor | int | None) -> Tensor | int:
    """What the sum of losses is divided by: the number of labels, or what gradient accumulation counted."""
    count = (labels != IGNORED).sum() if num_items is None else num_items
    return count.to(labels.device) if isinstance(count, Tensor) else count
