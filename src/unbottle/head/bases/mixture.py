"""MoS: a mixture of softmaxes."""

from torch import nn

from unbottle.head.distribution import Distribution
from unbottle.head.inputs import Inputs
from unbottle.ops import Logits, widen


class Mixture(nn.Linear):
    """P = sum_k prior_k softmax(f_Vk . w),   prior = softmax(Linear(q)).

    The softmaxes start identical; the random prior is what tells them apart.
    """

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        return (
            f"P(x) = sum_k prior_k softmax(Logit_k)(x) for k = 1..{self.out_features},   prior = softmax(Linear(q)),   "
            "Logit_1 = Logit,   Logit_k(x) = f_Vk . w_x"
        )

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        return Distribution(logits, log_weights=widen(self(x.q)).log_softmax(-1))
