"""CopyNet: the probability of copying a word is added to that of generating it, before normalisation."""

import torch
from torch import Tensor, nn

from unbottle.head.config import CLOSED
from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition
from unbottle.head.pointer import Pointer
from unbottle.ops import Logits, Words, logaddexp


class CopyNet(nn.Module, Partition):
    """exp Logit(x) = exp(f_V . w_x) + sum over the occurrences j of x of exp(f_P . L_L(h_j) + b)            eq:CopyNet

    As a partition: S = the words of the text, score = logaddexp(now, copied).

    Differs from the paper: a fresh CopyNet is the plain softmax up to N exp(b) / Z, because b starts at -2 `start`, by
    default -14. Where Z is small b must start lower: attaching to a model sets it. (GPT-2's Z is, and the paper could
    not train CopyNet there.) The paper does not say where its b starts.
    """

    order = 60
    name = "COPY"

    def __init__(self, size: int, pointer: Pointer, start: float = CLOSED) -> None:
        super().__init__()
        self.pointer, self.start = pointer, start
        self.where = pointer.where
        self.what = f"log(exp(now) + sum_j exp(f_{pointer.query} . L_{pointer.key}(h_j) + b))"
        self.needs, self.keys = pointer.needs, pointer.keys
        self.b = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return (self.b,)

    def reset_parameters(self) -> None:
        nn.init.constant_(self.b, -2 * self.start)

    def words(self, x: Inputs, logits: Logits) -> Words:
        return self.pointer.text(x).words

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        scores: Tensor = self(x, now)  # called, so that module hooks run
        return scores

    def forward(self, x: Inputs, now: Tensor) -> Tensor:
        copied = self.pointer.dot(x, self.pointer.states(x)) + self.b
        return logaddexp(now, self.pointer.text(x).logsumexp(copied))
