"""wbwR: a second pass of the model reads the candidates themselves. Slow; the paper's upper bound."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from unbottle.head.inputs import Inputs
from unbottle.head.multi_input import Windows
from unbottle.head.partition import Partition
from unbottle.head.projection import WHISPER, Needs
from unbottle.ops import Logits, Words, float16_widened, widen

TOKENS_AT_ONCE = 512  # bounds the memory of a block: positions x (1 + candidates)


class WordByWord(Partition):
    """S = W(k),   Logit(x, c_t) = now + f_R . L_LD(q_x)                                                 eq:logit_w2wR

    q_x is the hidden state of candidate x appended to the context; the caller's second pass supplies its layers. With
    Mi the window of a candidate is itself and the positions before it. L_LD is the one of P where there is P: the
    paper gives both the same name. Positions are taken block by block, as in the paper; in training a block keeps its
    scores only and is computed again in the backward pass, so memory is that of one block.
    """

    order = 90
    name = "WBWR"
    needs = (Needs("R", "query"), Needs("LD", "key", WHISPER))

    def __init__(self, k: int) -> None:
        self.k = k
        self.where, self.what = f"x in W'({k})", "now + f_R . L_LD(q_x)"

    def words(self, x: Inputs, logits: Logits) -> Words:
        return logits.top(self.k)

    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        size = max(1, TOKENS_AT_ONCE // (1 + words.ids.shape[-1]))
        blocks = [slice(start, start + size) for start in range(0, len(x.positions), size)]
        if len(blocks) < 2:
            return now + self._products(x, words, x.f("R"))
        products = []
        for rows in blocks:
            part = Words(words.ids[:, rows], words.present[:, rows])
            if torch.is_grad_enabled():
                products.append(checkpoint(self._products, x.rows(rows), part, x.f("R")[:, rows], use_reentrant=False))
            else:
                products.append(self._products(x.rows(rows), part, x.f("R")[:, rows]))
        return now + torch.cat(products, dim=1)

    def _products(self, x: Inputs, words: Words, f_R: Tensor) -> Tensor:
        """f_R . L_LD(q_x) of the candidates."""
        assert x.second_pass is not None, "checked when the inputs were built"
        keys = x.L["LD"](self._q(x, self._read(x.second_pass(words, f_R, x.positions), words, x)))
        with float16_widened(keys, f_R) as (wide_keys, wide):
            return (widen(wide_keys) @ widen(wide)[..., None])[..., 0]

    def _read(self, layers: Tensor, words: Words, x: Inputs) -> Tensor:
        depth = 1 if x.L_h is None else x.L_h.layers
        expected = (*words.ids.shape, depth, x.h.shape[-1])
        if tuple(layers.shape) != expected:
            raise ValueError(f"second_pass gave layers of shape {tuple(layers.shape)}, expected {expected}.")
        return layers

    def _q(self, x: Inputs, layers: Float[Tensor, "B T S L D"]) -> Float[Tensor, "B T S Q"]:
        h = layers[..., 0, :]
        if x.L_h is None or x.before is None:
            return h
        windows = Windows.single(x.L_h.read(layers).flatten(1, 2))
        before = x.before.repeat_interleave(layers.shape[2], dim=1)
        q: Tensor = x.L_h(h.flatten(1, 2), windows, before=before)[0]
        return q.view(*layers.shape[:3], q.shape[-1])
