"""PG: a gate chooses between generating a word and copying one."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.head.distribution import Copied, Distribution
from unbottle.head.inputs import Inputs
from unbottle.head.pointer import Pointer
from unbottle.ops import Logits, additive, widen


class PointerGenerator(nn.Module):
    """P(x) = p_gen softmax(f_V . w)(x) + (1 - p_gen) sum over the occurrences j of x of P_E(j)          eq:Pointer

    P_E = softmax_j(v . tanh(f_P + L_L(h_j) + b)),   p_gen = sigmoid(q . h^M + b_ptr)
    Where there is nothing to copy, p_gen = 1.

    Differs from the paper: a fresh PG is the plain softmax up to 1 - p_gen < 1e-3, because q starts at 0 and b_ptr
    at 7. The paper starts b_ptr at 3 for T5 and at 0 elsewhere.
    """

    def __init__(self, size: int, pointer: Pointer) -> None:
        super().__init__()
        self.pointer = pointer
        self.v = nn.Parameter(torch.empty(size))
        self.b = nn.Parameter(torch.empty(size))
        self.q = nn.Parameter(torch.empty(size))
        self.b_ptr = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.v.numel() ** -0.5
        nn.init.uniform_(self.v, -bound, bound)
        nn.init.zeros_(self.b)
        nn.init.zeros_(self.q)
        nn.init.constant_(self.b_ptr, 7.0)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        query, key = self.pointer.query, self.pointer.key
        return (
            f"P(x) = p_gen softmax(Logit)(x) + (1 - p_gen) sum_j P_E(j),   p_gen = sigmoid(q . h + b_ptr),   "
            f"P_E(j) = softmax_j(v . tanh(f_{query} + L_{key}(h_j) + b))"
        )

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
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
