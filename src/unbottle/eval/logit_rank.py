"""Effective rank of the logits, and the share of the loss gradient that reaches the hidden state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unbottle.eval.inference import LanguageModel, evaluating
from unbottle.eval.perplexity import Window
from unbottle.head import Past
from unbottle.hf.head_inputs import layers_of, states
from unbottle.hf.modeling import HeadMixin

SMALLEST_SINGULAR_VALUE = 1e-5  # of the largest singular value: below it is rounding of float32


@dataclass(frozen=True, kw_only=True)
class EffectiveRank:
    """Of the matrix of logits, a row for each position and a column for each word; rows without their mean.

    effective = exp of the entropy of the singular values, which sum to 1 (Roy and Vetterli)
    numerical = singular values above 1e-5 of the largest. One softmax over D dimensions has at most D of them, as its
                logits are h W^T, or D + 1 if words have a bias.
    """

    effective: float
    numerical: int
    positions: int


@torch.no_grad()
def effective_rank(model: LanguageModel, windows: Sequence[Window], *, positions: int = 1024) -> EffectiveRank:
    """Of logits at so many positions, at equal distances in the windows; fewer, if there are not so many."""
    if positions < 2:
        raise ValueError(f"positions {positions}: expected 2 or more.")
    total = sum(len(windows[place]["input_ids"]) for place in range(len(windows)))
    wanted = {number * total // min(positions, total) for number in range(min(positions, total))}
    rows, before = [], 0
    with evaluating(model):
        for place in range(len(windows)):
            ids = windows[place]["input_ids"]
            here = [number - before for number in range(before, before + len(ids)) if number in wanted]
            before += len(ids)
            if here:
                logits = model(input_ids=ids[None].to(model.device), use_cache=False).logits[0, here]
                rows.append(logits.float().cpu())
    return rank_of(torch.cat(rows))


def rank_of(logits: Float[Tensor, "P V"]) -> EffectiveRank:
    """Singular values by the P x P matrix of products, in float64: squares of 1e-5 are lost in float32."""
    gram = torch.zeros(len(logits), len(logits), dtype=torch.float64)
    mean = logits.double().mean(dim=-1, keepdim=True)
    for words in logits.split(8192, dim=1):
        part = words.double() - mean
        gram += part @ part.T
    values = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    share = values / values.sum()
    entropy = -(share * share.clamp(min=1e-300).log()).sum()
    return EffectiveRank(
        effective=float(entropy.exp()),
        numerical=int((values > SMALLEST_SINGULAR_VALUE * values.max()).sum()),
        positions=len(logits),
    )


STEP = 1e-4  # of a central difference, in float64
TOGETHER = 64  # perturbed states at once
SMALLEST_EIGENVALUE = 1e-10  # of the largest eigenvalue of J^T J


@dataclass(frozen=True, kw_only=True)
class GradientShare:
    """share = |P_J g| / |g|, the mean over positions.

    g = p - y is the gradient of the loss by the logits, and J = d logits / d h, h the last hidden state of a position.
    What moves h can move logits within the range of J only, which has D dimensions of V: P_J projects there. What moves
    all logits alike changes nothing and counts for nothing, so that logits and log-probabilities have the same share.
    """

    share: float
    positions: int


@torch.no_grad()
def gradient_share(
    model: HeadMixin, windows: Sequence[Window], *, positions: int = 8, context: int = 32
) -> GradientShare:
    """At the last of `context` tokens of so many windows. The model has a head; a fresh one is the plain model's."""
    if positions < 1 or context < 2:
        raise ValueError(f"positions {positions}, context {context}: expected 1 and 2 or more.")
    chosen = [number * len(windows) // min(positions, len(windows)) for number in range(min(positions, len(windows)))]
    head = copy.deepcopy(model.head).double()
    weight = model._embedding()
    embedding = replace(weight, **{name: _double(value) for name, value in vars(weight).items()})
    shares = []
    with evaluating(model):
        for place in chosen:
            ids = windows[place]["input_ids"][: context + 1].to(model.device)
            layers = layers_of(model, {"input_ids": ids[None, :-1]}).double()

            before = Past()
            head.inputs(states(layers[:, :-1], ids[None, :-2], None, None, past=None), embedding, past=before)

            def logits(changes: Tensor, layers: Tensor = layers, ids: Tensor = ids, before: Past = before) -> Tensor:
                moved = layers[:, -1:].repeat(len(changes), 1, 1, 1)
                moved[:, 0, 0] += changes
                past = copy.deepcopy(before)
                past.repeat(len(changes))
                here = states(moved, ids[None, -2:-1].expand(len(changes), -1), None, None, past=past)
                predicted: Tensor = head(here, embedding, past=past, output="logits").logits[:, 0]
                return predicted

            shares.append(share_of(logits, int(ids[-1]), layers.shape[-1]))
    return GradientShare(share=sum(shares) / len(shares), positions=len(shares))


def share_of(logits: Callable[[Tensor], Tensor], label: int, size: int) -> float:
    """|P_J g| / |g|, by J^T J: |P_J g|^2 = b^T (J^T J)^+ b with b = J^T g."""
    zero = torch.zeros(1, size, dtype=torch.float64)
    gradient = logits(zero)[0].softmax(-1)
    gradient[label] -= 1
    steps = (STEP * torch.eye(size, dtype=torch.float64)).split(TOGETHER)
    jacobian: Float[Tensor, "D V"] = torch.cat([(logits(step) - logits(-step)) / (2 * STEP) for step in steps])
    jacobian -= jacobian.mean(-1, keepdim=True)
    values, vectors = torch.linalg.eigh(jacobian @ jacobian.T)
    b = jacobian @ gradient
    kept = values > SMALLEST_EIGENVALUE * values.max()
    projected = (vectors.T @ b)[kept]
    return float((projected.square() / values[kept]).sum().sqrt() / gradient.norm())


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
