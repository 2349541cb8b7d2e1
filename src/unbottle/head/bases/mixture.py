"""MoS: a mixture of softmaxes."""

import torch
from torch import nn

from unbottle.head.distribution import Distribution
from unbottle.head.inputs import Inputs
from unbottle.ops import Logits, widen


class Mixture(nn.Linear):
    """P = sum_k prior_k softmax(f_Vk . w),   prior = softmax(Linear(q)).

    The softmaxes start identical; the random prior is what tells them apart. With `scaled` its weights are sqrt(Q)
    times as large, and what they give is divided by it.
    """

    def __init__(self, in_features: int, out_features: int, *, scaled: bool = False) -> None:
        self.divisor = in_features**0.5 if scaled else 1.0
        super().__init__(in_features, out_features)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.weight.mul_(self.divisor)
        self.bias.mul_(self.divisor)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        return (
            f"P(x) = sum_k prior_k softmax(Logit_k)(x) for k = 1..{self.out_features},   prior = softmax(Linear(q)),   "
            "Logit_1 = Logit,   Logit_k(x) = f_Vk . w_x"
        )

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        return Distribution(logits, log_weights=(widen(self(x.q)) / self.divisor).log_softmax(-1))
