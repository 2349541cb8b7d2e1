"""Knobs: what a user may turn while a trained head predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from unbottle.head.distribution import Distribution
from unbottle.head.inputs import Inputs
from unbottle.head.partitions import CopyNet
from unbottle.head.tokens import Tokens
from unbottle.ops import DenseLogits, Words

COPYING = ("E", "PE", "C", "PD")  # the partitions whose words are those of a text


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """Settings of a head for inference. By default nothing is turned, and nothing is computed.

    `copy_bias` b makes copying more likely, or less:
        C, E, P       Logit(x) + b for each word that C, E or P wrote, once however many of them did
        CopyNet       exp Logit(x) = exp(now) + sum over the occurrences j of x of exp(f_P . L_L(h_j) + b_copynet + b)
        PG, PS        P(x) = (generated(x) + exp(b) copied(x)) / Z
    For PS that is b on every score before normalisation, for PG b on the log-odds of copying: on its scores it would
    cancel. With `pg+c` and the like both hold. wbwR still chooses its candidates as if b were 0.

    `source_only`: P(x | x is a word of the source or always allowed). The source is the encoder input, on decoder-only
    models the context. `always_allowed` is for the end of the sequence. A position without one allowed word
    (padding) keeps all.
    """

    copy_bias: float = 0.0
    source_only: bool = False
    always_allowed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "always_allowed", tuple(self.always_allowed))
        if isinstance(self.copy_bias, bool) or not math.isfinite(self.copy_bias):
            raise ValueError(f"copy_bias {self.copy_bias!r}: expected a finite number, 0 for no bias.")

    @property
    def turned(self) -> bool:
        return self.copy_bias != 0 or self.source_only

    def refuse_training(self, training: bool) -> None:
        """A head trained under knobs would learn to undo them."""
        if self.turned and training:
            raise ValueError(
                f"training or labels under {self}: knobs are for inference. Set head.knobs = Knobs() first."
            )

    def refuse_embeddings(self, ids: Tensor | None) -> None:
        """Words that are not known can not be chosen from."""
        if self.source_only and ids is None:
            raise unknown_words("a context of embeddings")

    def turn(self, distribution: Distribution, x: Inputs, gate: nn.Module | None) -> Distribution:
        """What the head predicts when these knobs are turned."""
        if self.copy_bias:
            distribution = self._bias(distribution, x, gate)
        return self._restrict(distribution, x) if self.source_only else distribution

    def copied(self, x: Inputs, words: Words, gate: CopyNet) -> Float[Tensor, "B T S"]:
        """What CopyNet adds for each word to exp of its logit, as a logarithm: logaddexp(-inf, copied) = copied."""
        nothing = x.q.new_full((len(x.q), len(x.positions), words.ids.shape[-1]), -torch.inf)
        return gate.score(x, words, nothing) + self.copy_bias

    def _bias(self, distribution: Distribution, x: Inputs, gate: nn.Module | None) -> Distribution:
        first, *others = map(DenseLogits.of, distribution.logits)
        wrote = [marked(write.words, first.values) for write in first.written if write.name in COPYING]
        if wrote:
            once = torch.stack(wrote).any(0)
            first = replace(first, values=(first.values + self.copy_bias).where(once, first.values))
        if isinstance(gate, CopyNet):
            write = next(write for write in first.written if write.name == gate.name)
            scores = torch.logaddexp(write.now, self.copied(x, write.words, gate))
            first = replace(first.overwrite(replace(write, scores=scores)), written=first.written)
        distribution = replace(distribution, logits=(first, *others))
        if distribution.copied is None:
            return distribution
        copied = replace(distribution.copied, log_mass=distribution.copied.log_mass + self.copy_bias)
        return replace(distribution, copied=copied).normalised()

    def _restrict(self, distribution: Distribution, x: Inputs) -> Distribution:
        text = x.context if x.source is None else x.source
        allowed = marked(text.words, distribution.logits[0].values)
        self._refuse(x.source, allowed.shape[-1])
        allowed[..., list(self.always_allowed)] = True
        allowed |= ~allowed.any(-1, keepdim=True)
        dense = map(DenseLogits.of, distribution.logits)
        kept = tuple(replace(logits, values=logits.values.where(allowed, -torch.inf)) for logits in dense)
        if distribution.log_weights is None:
            return replace(distribution, logits=kept)
        pairs = zip(kept, distribution.logits, strict=True)
        shares = torch.stack([after.logsumexp() - before.logsumexp() for after, before in pairs], dim=-1)
        return replace(distribution, logits=kept, log_weights=distribution.log_weights + shares).normalised()

    def _refuse(self, source: Tokens | None, size: int) -> None:
        if wrong := [word for word in self.always_allowed if not 0 <= word < size]:
            raise ValueError(f"always_allowed contains {wrong[0]}: the vocabulary has words 0 to {size - 1}.")
        if source is None or torch.compiler.is_compiling() or source.visible.is_meta:
            return
        empty = ~source.visible.flatten(1).any(1)
        if bool(empty.any()):
            raise unknown_words(f"the encoder input of row {int(empty.nonzero()[0])}")


def unknown_words(where: str) -> ValueError:
    return ValueError(f"source_only: {where} has no words to choose from. Give ids, not embeddings alone.")


def marked(words: Words, like: Tensor) -> Bool[Tensor, "B T V"]:
    """Sets of words as one flag per word and position."""
    size = like.shape[-1]
    target = words.ids.where(words.present, size)  # one column more: the target of all that is not present
    flags = torch.zeros((*target.shape[:2], size + 1), dtype=torch.bool, device=like.device)
    return flags.scatter(-1, target, True)[..., :size].expand(like.shape).clone()
