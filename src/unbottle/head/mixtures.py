"""Mixtures: MoS mixes softmaxes; PG and PS mix a softmax with copied words."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.head.config import CLOSED
from unbottle.head.distribution import Copied, Distribution
from unbottle.head.inputs import Inputs
from unbottle.head.pointer import Pointer
from unbottle.head.projection import Affine
from unbottle.ops import Logits, additive, widen


class Mixture(Affine):
    """P = sum_k prior_k softmax(f_Vk . w),   prior = softmax(Linear(q)).

    The softmaxes start identical; the random prior is what tells them apart. With `scaled` its weights are sqrt(Q)
    times as large, and what they give is divided by it.
    """

    bias: nn.Parameter

    def __init__(self, in_features: int, out_features: int, *, scaled: bool = False) -> None:
        self.divisor = in_features**0.5 if scaled else 1.0
        super().__init__(in_features, out_features)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return self.weight, self.bias

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # as any linear layer starts
        bound = self.in_features**-0.5
        nn.init.uniform_(self.bias, -bound, bound)
        self.weight.mul_(self.divisor)
        self.bias.mul_(self.divisor)

    def forward(self, q: Tensor) -> Tensor:
        return F.linear(q, self.weight, self.bias)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        return (
            f"P(x) = sum_k prior_k softmax(Logit_k)(x) for k = 1..{self.out_features},   prior = softmax(Linear(q)),   "
            "Logit_1 = Logit,   Logit_k(x) = f_Vk . w_x"
        )

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        return Distribution(logits, log_weights=(widen(self(x.q)) / self.divisor).log_softmax(-1))


class PointerGenerator(nn.Module):
    """P(x) = p_gen softmax(f_V . w)(x) + (1 - p_gen) sum over the occurrences j of x of P_E(j)          eq:Pointer

    P_E = softmax_j(v . tanh(f_P + L_L(h_j) + b)),   p_gen = sigmoid(q . h^M + b_ptr)
    Where there is nothing to copy, p_gen = 1.

    Differs from the paper: a fresh PG is the plain softmax up to 1 - p_gen < 1e-3, because q starts at 0 and b_ptr
    at 7, the default `start`. The paper starts b_ptr at 3 for T5 and at 0 elsewhere: half of the probability is copied.
    """

    def __init__(self, size: int, pointer: Pointer, start: float = CLOSED) -> None:
        super().__init__()
        self.pointer, self.start = pointer, start
        self.v = nn.Parameter(torch.empty(size))
        self.b = nn.Parameter(torch.empty(size))
        self.q = nn.Parameter(torch.empty(size))
        self.b_ptr = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return self.v, self.b, self.q, self.b_ptr

    def reset_parameters(self) -> None:
        bound = self.v.numel() ** -0.5
        nn.init.uniform_(self.v, -bound, bound)
        nn.init.zeros_(self.b)
        nn.init.zeros_(self.q)
        nn.init.constant_(self.b_ptr, self.start)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        query, key = self.pointer.query, self.pointer.key
        return (
            f"P(x) = p_gen softmax(Logit)(x) + (1 - p_gen) sum_j P_E(j),   p_gen = sigmoid(q . h + b_ptr),   "
            f"P_E(j) = softmax_j(v . tanh(f_{query} + L_{key}(h_j) + b))"
        )

    def forward(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        text = self.pointer.text(x)
        anything = text.visible.any(-1, keepdim=True)
        gate = widen(x.h @ self.q)[..., None] + self.b_ptr
        log_generate = F.logsigmoid(gate).where(anything, 0)
        scores = self._scores(x).where(text.visible, -torch.inf).where(anything, 0)  # no row of -inf only
        log_mass = F.logsigmoid(-gate) + text.logsumexp(scores.log_softmax(-1))
        return Distribution(logits, log_generate, Copied(text.words, log_mass))

    def _scores(self, x: Inputs) -> Tensor:
        visible = self.pointer.text(x).visible
        return widen(additive(x.f(self.pointer.query), self.pointer.states(x), self.b, self.v, visible))


class PointerSentinel(nn.Module):
    """P(x) = g softmax(f_V . w)(x) + sum over the occurrences j of x of exp(s_j) / Z_p        eq:Pointer_sentinel

    s_j = f_P . tanh(L_L(h_j)) + b,   g = exp(q . h^M) / Z_p,   Z_p = exp(q . h^M) + sum_j exp(s_j)

    Differs from the paper: a fresh PS is the plain softmax up to the copied mass, at most N exp(b) for N tokens to
    copy, because q starts at 0 and b at -2 `start`, by default -14. The paper does not say where its b starts, and the
    authors' code has none, which is 0: N / (N + 1) of the probability is copied.
    """

    def __init__(self, size: int, pointer: Pointer, start: float = CLOSED) -> None:
        super().__init__()
        self.pointer, self.start = pointer, start
        self.q = nn.Parameter(torch.empty(size))
        self.b = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return self.q, self.b

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.q)
        nn.init.constant_(self.b, -2 * self.start)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        query, key = self.pointer.query, self.pointer.key
        return (
            f"P(x) = g softmax(Logit)(x) + sum_j exp(s_j) / Z_p,   g = exp(q . h) / Z_p,   "
            f"s_j = f_{query} . tanh(L_{key}(h_j)) + b,   Z_p = exp(q . h) + sum_j exp(s_j)"
        )

    def forward(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        text = self.pointer.text(x)
        sentinel = widen(x.h @ self.q)[..., None]
        copied = self.pointer.dot(x, self.pointer.states(x).tanh()) + self.b
        visible = copied.masked_fill(~text.visible, -torch.inf)
        log_Z = torch.cat([sentinel, visible], dim=-1).logsumexp(-1, keepdim=True)
        return Distribution(logits, sentinel - log_Z, Copied(text.words, text.logsumexp(copied) - log_Z))
