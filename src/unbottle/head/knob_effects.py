"""What knobs do to a prediction: `head.knobs` says what they mean."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from unbottle.head.distribution import Distribution
from unbottle.head.inputs import Inputs
from unbottle.head.knobs import unknown_words
from unbottle.head.partitions import CopyNet
from unbottle.ops import DenseLogits, Words

COPYING = ("E", "PE", "C", "PD")  # the partitions whose words are those of a text


def apply_knobs(distribution: Distribution, x: Inputs, gate: nn.Module | None) -> Distribution:
    """What the head predicts under the knobs of these inputs."""
    if x.knobs.copy_bias:
        distribution = _bias(distribution, x, gate)
    return _restrict(distribution, x) if x.knobs.source_only else distribution


def copied_scores(x: Inputs, words: Words, gate: CopyNet) -> Float[Tensor, "B T S"]:
    """What CopyNet adds for each word to exp of its logit, as a logarithm: logaddexp(-inf, copied) = copied."""
    nothing = x.q.new_full((len(x.q), len(x.positions), words.ids.shape[-1]), -torch.inf)
    return gate.score(x, words, nothing) + x.knobs.copy_bias


def _bias(distribution: Distribution, x: Inputs, gate: nn.Module | None) -> Distribution:
    first, *others = map(DenseLogits.of, distribution.logits)
    wrote = [marked(write.words, first.values) for write in first.written if write.name in COPYING]
    if wrote:
        once = torch.stack(wrote).any(0)
        first = replace(first, values=(first.values + x.knobs.copy_bias).where(once, first.values))
    if isinstance(gate, CopyNet):
        write = next(write for write in first.written if write.name == gate.name)
        scores = torch.logaddexp(write.now, copied_scores(x, write.words, gate))
        first = replace(first.overwrite(replace(write, scores=scores)), written=first.written)
    distribution = replace(distribution, logits=(first, *others))
    if distribution.copied is None:
        return distribution
    copied = replace(distribution.copied, log_mass=distribution.copied.log_mass + x.knobs.copy_bias)
    return replace(distribution, copied=copied).normalised()


def _restrict(distribution: Distribution, x: Inputs) -> Distribution:
    text = x.context if x.source is None else x.source
    allowed = marked(text.words, distribution.logits[0].values)
    _refuse(x, allowed.shape[-1])
    allowed[..., list(x.knobs.always_allowed)] = True
    allowed |= ~allowed.any(-1, keepdim=True)
    dense = map(DenseLogits.of, distribution.logits)
    kept = tuple(replace(logits, values=logits.values.where(allowed, -torch.inf)) for logits in dense)
    if distribution.log_weights is None:
        return replace(distribution, logits=kept)
    pairs = zip(kept, distribution.logits, strict=True)
    shares = torch.stack([after.logsumexp() - before.logsumexp() for after, before in pairs], dim=-1)
    return replace(distribution, logits=kept, log_weights=distribution.log_weights + shares).normalised()


def _refuse(x: Inputs, size: int) -> None:
    source = x.source
    if wrong := [word for word in x.knobs.always_allowed if not 0 <= word < size]:
        raise ValueError(f"always_allowed contains {wrong[0]}: the vocabulary has words 0 to {size - 1}.")
    if source is None or torch.compiler.is_compiling() or source.visible.is_meta:
        return
    empty = ~source.visible.flatten(1).any(1)
    if bool(empty.any()):
        raise unknown_words(f"the encoder input of row {int(empty.nonzero()[0])}")


def marked(words: Words, like: Tensor) -> Bool[Tensor, "B T V"]:
    """Sets of words as one flag per word and position."""
    size = like.shape[-1]
    target = words.ids.where(words.present, size)  # one column more: the target of all that is not present
    flags = torch.zeros((*target.shape[:2], size + 1), dtype=torch.bool, device=like.device)
    return flags.scatter(-1, target, True)[..., :size].expand(like.shape).clone()
