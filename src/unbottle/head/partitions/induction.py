"""I: the words that followed, earlier in the context, what was just read. Not the paper's."""

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs
from unbottle.head.tokens import Tokens
from unbottle.method import LETTERS
from unbottle.ops import Logits, Words


class Induction(Partition):
    """S = {x_{j+1} | the n tokens up to j are the n tokens up to t},   Logit(x, c_t) = now + f_I . w_x.

    What an induction head of a transformer looks for, as a set of words. "Now" makes hybrids, as in P.
    """

    def __init__(self, n: int) -> None:
        self.n, self.name, self.order = n, f"I{n}", 50 + n
        self.where, self.what = f"x after the last {n} words, in c_t", f"now + f_{self.name} . w_x"
        self.needs = (Needs(self.name, "query", 0.0),)

    def words(self, x: Inputs, logits: Logits) -> Words:
        text = x.context
        followed = _matches(text, x.positions, self.n)[..., :-1] & text.visible[..., 1:]
        column = text.first[:, None, 1:].expand_as(followed)
        present = torch.zeros(text.visible.shape, dtype=torch.int8, device=text.ids.device)
        return Words(text.ids[:, None], present.scatter_reduce(-1, column, followed.to(torch.int8), "amax").bool())

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        return now + x.embedding.added(x.f(self.name), words)


def _matches(text: Tokens, positions: Tensor, n: int) -> Bool[Tensor, "B T N"]:
    """Whether the n tokens up to a column are those up to a position, all of them visible."""
    rows = torch.arange(len(positions), device=positions.device)
    matches = text.visible
    for back in range(n):
        here = positions - back
        known = (here >= 0) & text.visible[:, rows, here.clamp(min=0)]
        ids, visible = F.pad(text.ids, (back, 0))[:, : text.ids.shape[1]], F.pad(text.visible, (back, 0))
        same = ids[:, None] == text.ids[:, here.clamp(min=0), None]
        matches = matches & same & visible[..., : text.ids.shape[1]] & known[..., None]
    return matches


register(LETTERS["i"], lambda config: [Induction(n) for n in (1, 2)])
