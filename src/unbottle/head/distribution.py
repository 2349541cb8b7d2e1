"""Distribution: weighted softmaxes plus copied mass, in which every method ends; and its loss, the Objective."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unbottle.ops import DenseLogits, Logits, Words, Write, is_accelerator, logaddexp

IGNORED = -100  # the label that has no loss, as everywhere in the ecosystem


@dataclass(frozen=True)
class Copied:
    """Probability put on words directly: log_mass where the word is present."""

    words: Words
    log_mass: Float[Tensor, "B T S"]


@dataclass(frozen=True)
class Distribution:
    """P(x | c_t) = sum_k exp(log_weights_k) softmax(logits_k)(x) + copied(x).

    Without `log_weights` there is one softmax of weight one. `first_stage` is what a two-stage method predicted
    before its second stage, in training: its loss is added then. A word that the model excludes (a bias of -inf) is
    never generated, but it can be copied.
    """

    logits: tuple[Logits, ...]
    log_weights: Float[Tensor, "B T K"] | None = None
    copied: Copied | None = None
    first_stage: Distribution | None = None

    @property
    def is_softmax(self) -> bool:
        """One softmax and nothing else: its logits say everything."""
        return self.log_weights is None and self.copied is None

    def scores(self) -> Float[Tensor, "B T V"]:
        """What a model returns as its logits: those of the one softmax or, where several are mixed, log P."""
        return self.logits[0].values if self.is_softmax else self.log_probs()

    def log_probs(self) -> Float[Tensor, "B T V"]:
        """log P of every word."""
        parts = [logits.log_softmax() for logits in self.logits]
        generated = self._mixed(parts)
        if self.copied is None:
            return generated
        base, words = DenseLogits(generated), self.copied.words
        now = base.at(words)
        return base.overwrite(Write("COPY", words, now, logaddexp(now, self.copied.log_mass))).values

    def mean_log_prob(self) -> Float[Tensor, "B T"]:
        """The mean of log P over the vocabulary: what label smoothing asks for."""
        if self.is_softmax:
            return self.logits[0].mean() - self.logits[0].logsumexp()
        return self.log_probs().mean(-1)

    def nll(self, labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """-log P(label), 0 where the label is -100."""
        values = self.logits[0].values
        check_labels(labels, values.shape[:2], values.shape[-1])
        return self.checked_nll(labels)

    def checked_nll(self, labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """`nll` of labels that were checked already."""
        counts = (labels != IGNORED)[..., None]
        label = Words(labels[..., None].where(counts, 0), counts)
        parts = [(logits.at(label) - logits.logsumexp()[..., None]).where(counts, 0) for logits in self.logits]
        log_prob = self._mixed(parts)[..., 0]
        if self.copied is not None:
            is_label = self.copied.words.present & (self.copied.words.ids == label.ids)
            log_mass = self.copied.log_mass.where(is_label, 0).sum(-1)  # the words are distinct: one hit at most
            log_prob = logaddexp(log_prob, log_mass.where(is_label.any(-1), -torch.inf))
        return (-log_prob).where(labels != IGNORED, 0)

    def normalised(self) -> Distribution:
        """The weights of the softmaxes and the copied mass, divided by their sum."""
        if self.log_weights is None:
            return self
        if self.copied is None:
            return replace(self, log_weights=self.log_weights.log_softmax(-1))
        copied = self.copied.log_mass.where(self.copied.words.present, -torch.inf)
        log_Z = torch.cat([self.log_weights, copied], dim=-1).logsumexp(-1, keepdim=True)
        return replace(self, log_weights=self.log_weights - log_Z, copied=replace(self.copied, log_mass=copied - log_Z))

    def _mixed(self, parts: Sequence[Float[Tensor, "B T S"]]) -> Float[Tensor, "B T S"]:
        """log sum_k weight_k P_k of some words, added up one by one: there may be many words."""
        if self.log_weights is None:
            return parts[0]
        weighted = (part + self.log_weights[..., k, None] for k, part in enumerate(parts))
        return functools.reduce(logaddexp, weighted)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """loss = (1 - s) (-log P(label)) + s (mean over the vocabulary of -log P) + z (log Z)^2

    s is `label_smoothing`, z is `z_loss`, both 0 unless set. Where several softmaxes are mixed, (log Z)^2 is their
    mean. A two-stage method adds the loss of its first stage.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing {self.label_smoothing!r}: expected a number from 0 to below 1.")
        if not (math.isfinite(self.z_loss) and self.z_loss >= 0):
            raise ValueError(f"z_loss {self.z_loss!r}: expected a finite number, 0 or larger.")

    def losses(self, distribution: Distribution, labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The loss of each position, 0 where the label is -100. The labels have been checked."""
        losses = distribution.checked_nll(labels)
        if self.label_smoothing:
            uniform = -distribution.mean_log_prob().where(labels != IGNORED, 0)
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * uniform
        if self.z_loss:
            squares = torch.stack([logits.logsumexp().square() for logits in distribution.logits]).mean(0)
            losses = losses + self.z_loss * squares.where(labels != IGNORED, 0)
        if distribution.first_stage is not None:
            losses = losses + self.losses(distribution.first_stage, labels)
        return losses


def check_labels(labels: Tensor, shape: torch.Size, vocabulary: int) -> None:
    """One label for each position: a word, or -100."""
    if labels.shape != shape:
        raise ValueError(f"labels have shape {tuple(labels.shape)}, the positions {tuple(shape)}.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels are {labels.dtype}, expected whole numbers.")
    if torch.compiler.is_compiling() or labels.is_meta:
        return
    outside = (labels != IGNORED) & ((labels < 0) | (labels >= vocabulary))
    if is_accelerator(labels.device):
        torch._assert_async(~outside.any(), f"labels: allowed are 0 to {vocabulary - 1}, and {IGNORED} for no loss.")
        return
    wrong = labels[outside]
    if wrong.numel():
        raise ValueError(f"label {int(wrong[0])}: allowed are 0 to {vocabulary - 1}, and {IGNORED} for no loss.")
