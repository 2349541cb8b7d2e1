"""Attribution: which partition, and which tokens of a text, the probability of a word comes from."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from unbottle.head.distribution import Copied, Distribution
from unbottle.head.head import Head
from unbottle.head.inputs import Inputs
from unbottle.head.knob_effects import copied_scores
from unbottle.head.partitions import CopyNet, Local
from unbottle.ops import DenseLogits, Write


def shares(head: Head, x: Inputs, distribution: Distribution) -> dict[str, Float[Tensor, "B T V"]]:
    """The probability of each word by what gave it:     P(x) = sum over the names of shares[name](x)

    V, R1, C, ... are the words of the first softmax that this partition wrote last; V2, V3, ... the other softmaxes of
    MoS; COPY is what PG, PS and CopyNet copied (what CopyNet generated counts as V, although it shares a logit).
    """
    first, *others = map(DenseLogits.of, distribution.logits)
    log_Z, copied = first.logsumexp()[..., None], distribution.copied
    if isinstance(head.gate, CopyNet):
        *before, write = first.written
        assert write.name == head.gate.name, "CopyNet combines with no other partition"
        copied = Copied(write.words, copied_scores(x, write.words, head.gate) - log_Z)
        first = replace(first.overwrite(replace(write, scores=write.now)), written=tuple(before))
    log_weights = torch.zeros_like(log_Z) if distribution.log_weights is None else distribution.log_weights
    weight, *weights = log_weights.split(1, dim=-1)
    probability = (first.values - log_Z + weight).exp()
    writer, names = first.writers()
    by_name = {name: probability.where(writer == number, 0) for number, name in enumerate(names)}
    for name, weight, logits in zip(head.softmaxes[1:], weights, others, strict=True):
        by_name[name] = (logits.values - logits.logsumexp()[..., None] + weight).exp()
    if copied is not None:
        nothing = DenseLogits(torch.full_like(first.values, -torch.inf))
        copy = Write("COPY", copied.words, nothing.at(copied.words), copied.log_mass)
        by_name["COPY"] = nothing.overwrite(copy).values.exp()
    return by_name


def token_scores(head: Head, x: Inputs) -> dict[bool, Float[Tensor, "B T N"]]:
    """The score of each token of the encoder input (True) and of the context (False), where a method scores tokens.

    P: f_P . L_L(state), whose mean over a word's occurrences is added to its logit. CopyNet: f_P . L_L(state) + b,
    and copy_bias: exp of it is added to exp of the logit.
    """
    x = x.unfolded()
    scores = {}
    for partition in head.partitions:
        if isinstance(partition, Local):
            words = x.text(source=partition.source).words
            zeros = x.q.new_zeros((len(x.q), len(x.positions), words.ids.shape[-1]))
            scores[partition.source] = partition.score(x, words, zeros)
    if isinstance(head.gate, CopyNet):
        scores[head.gate.pointer.source] = copied_scores(x, head.gate.pointer.text(x).words, head.gate)
    return scores


def token_masses(head: Head, x: Inputs, distribution: Distribution) -> dict[bool, Float[Tensor, "B T N"]]:
    """The probability copied from each token of the encoder input (True) or of the context (False): PG, PS, CopyNet."""
    if head.gate is None:
        return {}
    pointer = head.gate.pointer
    if isinstance(head.gate, CopyNet):
        log_mass = token_scores(head, x)[pointer.source] - distribution.logits[0].logsumexp()[..., None]
    else:
        copied = head.distribution(x.unfolded()).copied
        assert copied is not None
        log_mass = copied.log_mass
    return {pointer.source: log_mass.exp().where(pointer.text(x).visible, 0)}
