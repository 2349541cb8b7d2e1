"""E: the words of the encoder input get a projection of their own."""

from torch import Tensor

from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs
from unbottle.ops import Logits, Words
from unbottle.spec import LETTERS


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
