"""gradient_share: how much of what the loss says about logits reaches the hidden state."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unbottle.eval.evaluating import evaluating
from unbottle.head import Past
from unbottle.hf.layers import layers_of
from unbottle.hf.loss import scores_of
from unbottle.hf.text import states

Window = Mapping[str, Tensor]
STEP = 1e-4  # of a central difference, in float64
TOGETHER = 64  # perturbed states at once
FAINT = 1e-10  # of the largest eigenvalue of J^T J


@dataclass(frozen=True, kw_only=True)
class GradientShare:
    """share = |P_J g| / |g|, the mean over positions.

    g = p - y is the gradient of the loss by the logits, and J = d logits / d h, h the last hidden state of a position.
    What moves h can move logits within the range of J only, which has D dimensions of V: P_J projects there. What moves
    all logits alike changes nothing and counts for nothing, so that logits and log-probabilities have the same share.
    """

    share: float
    positions: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def gradient_share(model: Any, windows: Sequence[Window], *, positions: int = 8, context: int = 32) -> GradientShare:
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
                return scores_of(head.distribution(head.inputs(here, embedding, past=past)))[:, 0]

            shares.append(share_of(logits, int(ids[-1]), layers.shape[-1]))
    return GradientShare(share=sum(shares) / len(shares), positions=len(shares))


def share_of(logits: Any, label: int, size: int) -> float:
    """|P_J g| / |g|, by J^T J: |P_J g|^2 = b^T (J^T J)^+ b with b = J^T g."""
    zero = torch.zeros(1, size, dtype=torch.float64)
    gradient = logits(zero)[0].softmax(-1)
    gradient[label] -= 1
    steps = (STEP * torch.eye(size, dtype=torch.float64)).split(TOGETHER)
    jacobian: Float[Tensor, "D V"] = torch.cat([(logits(step) - logits(-step)) / (2 * STEP) for step in steps])
    jacobian -= jacobian.mean(-1, keepdim=True)
    values, vectors = torch.linalg.eigh(jacobian @ jacobian.T)
    b = jacobian @ gradient
    kept = values > FAINT * values.max()
    there = (vectors.T @ b)[kept]
    return float((there.square() / values[kept]).sum().sqrt() / gradient.norm())


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
