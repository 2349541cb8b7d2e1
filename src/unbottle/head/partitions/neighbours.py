"""K: the words that are most similar to the words of the context. Not the paper's: its last section asks for it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs
from unbottle.head.tokens import first_occurrence
from unbottle.method import LETTERS
from unbottle.ops import Logits, Words
from unbottle.ops.logits import top

ROWS = 1024  # words whose neighbours are looked for at once


class Neighbours(Partition):
    """S = {x | x is one of the n nearest neighbours of a word of c_t},   Logit(x, c_t) = f_K . w_x

    Near is the cosine of output embeddings. C writes later, so words of the context itself are C's where there is C.
    Neighbours are found once, of the embeddings as they are at the first prediction after attaching or loading: where
    the output embeddings are trained, sets may differ a little after loading.
    """

    order = 35
    name = "K"
    needs = (Needs("K"),)

    def __init__(self, n: int) -> None:
        self.n = n
        self.where, self.what = f"x among the {n} words nearest to a word of c_t", "f_K . w_x"
        self.table: Tensor | None = None

    def words(self, x: Inputs, logits: Logits) -> Words:
        text, table = x.context, self._table(x.embedding.weight)
        near = table[text.ids].flatten(1)  # B N*n
        first = first_occurrence(near, torch.zeros_like(near))
        seen = text.visible.repeat_interleave(table.shape[1], dim=-1)
        column = first[:, None].expand(-1, seen.shape[1], -1)
        present = torch.zeros_like(seen, dtype=torch.int8).scatter_reduce(-1, column, seen.to(torch.int8), "amax")
        return Words(near[:, None], present.bool())

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        return x.embedding.at(x.f("K"), words)

    def _table(self, weight: Float[Tensor, "V D"]) -> Int[Tensor, "V n"]:
        if self.table is None or len(self.table) != len(weight) or self.table.device != weight.device:
            self.table = nearest(weight, self.n)
        return self.table


@torch.no_grad()
def nearest(weight: Float[Tensor, "V D"], n: int) -> Int[Tensor, "V n"]:
    """The n words with the most similar embeddings, without the word itself; of equal ones the lower ids."""
    n = min(n, len(weight) - 1)
    unit = F.normalize(weight.detach().to(torch.promote_types(weight.dtype, torch.float32)), dim=-1)
    found = []
    for start in range(0, len(unit), ROWS):
        similarity = unit[start : start + ROWS] @ unit.T
        rows = torch.arange(len(similarity), device=weight.device)
        similarity[rows, start + rows] = -torch.inf
        found.append(top(similarity, n))
    return torch.cat(found)


register(LETTERS["k"], lambda config: [Neighbours(config.neighbours)])
