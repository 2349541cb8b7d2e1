"""P: the words of a text get local embeddings, made from the hidden states at their occurrences."""

from torch import Tensor

from unbottle.head.config import HeadConfig
from unbottle.head.inputs import Inputs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import WHISPER, Needs
from unbottle.method import LETTERS
from unbottle.ops import Logits, Words


class Local(Partition):
    """S = {x | x in c_t} or {x | x in I},   Logit(x, c_t) = now + f_P . e_x                              eq:logit_P

    e_x = mean of L_L(state) over the occurrences of x                                                  eq:local_emb
    "Now" makes hybrids: it is f_V . w_x alone, f_C . w_x after C (eq:logit_CPR), f_E . w_x after E (eq:logit_CEPR).
    """

    def __init__(self, *, source: bool) -> None:
        self.source = source
        self.order = 30 if source else 50
        self.name, self.key = ("PE", "LE") if source else ("PD", "LD")
        self.where, self.what = "x in I" if source else "x in c_t", f"now + f_{self.name} . e_x,{self.key}"
        self.needs = (
            Needs(self.name, "query", WHISPER),
            Needs(self.key, "key", WHISPER, "source" if source else "q"),
        )
        self.keys = (self.key,)

    def words(self, x: Inputs, logits: Logits) -> Words:
        return x.text(source=self.source).words

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        text = x.text(source=self.source)
        return now + text.mean(text.dot(x.f(self.name), text.keys[self.key]))


def _both_sides(config: HeadConfig) -> list[Partition]:
    return [Local(source=source) for source in ([True, False] if config.encoder_decoder else [False])]


register(LETTERS["p"], _both_sides)
