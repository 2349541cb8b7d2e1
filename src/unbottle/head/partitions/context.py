"""C and E: the words of the context, or of the encoder input, get a projection of their own."""

from torch import Tensor

from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs
from unbottle.method import LETTERS
from unbottle.ops import Logits, Words


class Context(Partition):
    """S = {x | x in c_t},   Logit(x, c_t) = f_C . w_x                    section "Context Partition (C)"."""

    order = 40
    name = "C"
    where, what = "x in c_t", "f_C . w_x"
    needs = (Needs("C"),)

    def words(self, x: Inputs, logits: Logits) -> Words:
        return x.context.words

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        return x.embedding.at(x.f("C"), words)


register(LETTERS["c"], lambda config: [Context()])


class Encoder(Partition):
    """S = {x | x in I},   Logit(x, c_t) = f_E . w_x                      section "Encoder Partition (E)"."""

    order = 20
    name = "E"
    where, what = "x in I", "f_E . w_x"
    needs = (Needs("E"),)

    def words(self, x: Inputs, logits: Logits) -> Words:
        return x.text(source=True).words

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        return x.embedding.at(x.f("E"), words)


register(LETTERS["e"], lambda config: [Encoder()])
