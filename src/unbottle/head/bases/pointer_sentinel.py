"""PS: generating is one more thing to point at."""

import torch
from torch import nn

from unbottle.head.distribution import Copied, Distribution
from unbottle.head.inputs import Inputs
from unbottle.head.pointer import Pointer
from unbottle.ops import Logits, widen


class PointerSentinel(nn.Module):
    """P(x) = g softmax(f_V . w)(x) + sum over the occurrences j of x of exp(s_j) / Z_p        eq:Pointer_sentinel

    s_j = f_P . tanh(L_L(h_j)) + b,   g = exp(q . h^M) / Z_p,   Z_p = exp(q . h^M) + sum_j exp(s_j)

    Differs from the paper: a fresh PS is the plain softmax up to the copied mass, at most N exp(b) for N tokens to
    copy, because q starts at 0 and b at -14. The paper does not say where its b starts.
    """

    def __init__(self, size: int, pointer: Pointer) -> None:
        super().__init__()
        self.pointer = pointer
        self.q = nn.Parameter(torch.empty(size))
        self.b = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.q)
        nn.init.constant_(self.b, -14.0)

    @property
    def equation(self) -> str:
        """For people, as `unbottle methods` prints it."""
        query, key = self.pointer.query, self.pointer.key
        return (
            f"P(x) = g softmax(Logit)(x) + sum_j exp(s_j) / Z_p,   g = exp(q . h) / Z_p,   "
            f"s_j = f_{query} . tanh(L_{key}(h_j)) + b,   Z_p = exp(q . h) + sum_j exp(s_j)"
        )

    def distribution(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        text = self.pointer.text(x)
        sentinel = widen(x.h @ self.q)[..., None]
        copied = self.pointer.dot(x, self.pointer.states(x).tanh()) + self.b
        visible = copied.masked_fill(~text.visible, -torch.inf)
        log_Z = torch.cat([sentinel, visible], dim=-1).logsumexp(-1, keepdim=True)
        return Distribution(logits, sentinel - log_Z, Copied(text.words, text.logsumexp(copied) - log_Z))
