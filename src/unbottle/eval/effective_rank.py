"""effective_rank: how many directions the logits of a model really use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unbottle.eval.evaluating import evaluating

Window = Mapping[str, Tensor]
FAINT = 1e-5  # of the largest singular value: below it is rounding of float32


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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def effective_rank(model: Any, windows: Sequence[Window], *, positions: int = 1024) -> EffectiveRank:
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
        numerical=int((values > FAINT * values.max()).sum()),
        positions=len(logits),
    )
