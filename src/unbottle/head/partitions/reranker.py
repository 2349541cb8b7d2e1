"""R: the most likely words so far get a projection of their own, one for each k."""

from torch import Tensor, maximum

from unbottle.head.config import HeadConfig
from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs
from unbottle.method import LETTERS
from unbottle.ops import Logits, Words, top


class Reranker(Partition):
    """S = W(k), the k words with the highest logits so far,   Logit(x, c_t) = f_R . w_x."""

    order = 10

    def __init__(self, name: str, k: int) -> None:
        self.name, self.k = name, k
        self.where, self.what = f"x in W({k})", f"f_{name} . w_x"
        self.needs = (Needs(name),)

    def words(self, x: Inputs, logits: Logits) -> Words:
        return logits.top(self.k)

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        return x.embedding.at(x.f(self.name), words)


class NestedReranker(Reranker):
    """W(k1): the k1 words of W(k2) with the highest max(logit before R2, logit after R2)                eq:logit_CPR

    Before R2 that is f_V . w_x, after it f_R2 . w_x. Looking inside W(k2) saves a second product with the vocabulary.
    """

    def __init__(self, name: str, k: int, outer: Reranker) -> None:
        super().__init__(name, k)
        self.outer = outer.name

    def words(self, x: Inputs, logits: Logits) -> Words:
        outer = next(write for write in logits.written if write.name == self.outer)
        chosen = top(maximum(outer.now, outer.scores).detach(), self.k)  # columns ascend with ids, so do ties
        words = outer.words
        return Words(words.ids.gather(-1, chosen), words.present.gather(-1, chosen), complete=words.complete)


def _largest_first(config: HeadConfig) -> list[Partition]:
    rerankers: list[Reranker] = []
    for number, k in sorted(enumerate(config.method.ks, start=1), reverse=True):
        if rerankers and config.convention == "paper":
            rerankers.append(NestedReranker(f"R{number}", k, rerankers[-1]))
        else:
            rerankers.append(Reranker(f"R{number}", k))
    return list(rerankers)


register(LETTERS["r"], _largest_first)
