"""MoS: a mixture of softmaxes."""

from torch import nn

from unbottle.head.distribution import Distribution
from unbottle.head.inputs import Inputs
from unbottle.ops import Logits, widen


class Mixture(nn.Linear):
    """P = sum_k prior_k softmax(f_Vk . w),   prior = softmax(Linear(q)).

    The softmaxes start identical; the random prior is what tells them apart.
    """

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        return Distribution(logits, log_weights=widen(self(x.q)).log_softmax(-1))
