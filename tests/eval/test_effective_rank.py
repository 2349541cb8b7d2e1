"""How many directions logits use: one softmax cannot use more than it has dimensions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny_causal
import torch

from unbottle.data import Windows
from unbottle.eval.logit_rank import effective_rank, rank_of


def test_by_hand() -> None:
    torch.manual_seed(0)
    logits = torch.randn(30, 70) @ torch.randn(70, 50)
    logits[:, 1:] = logits[:, :1] * torch.randn(49)  # rank 1 and, without the mean of rows, rank 1
    logits += torch.randn(30, 3) @ torch.randn(3, 50)
    centred = (logits - logits.mean(1, keepdim=True)).double().numpy()
    values = np.linalg.svd(centred, compute_uv=False)
    shares = values / values.sum()
    found = rank_of(logits)
    assert found.effective == pytest.approx(math.exp(-sum(s * math.log(s) for s in shares if s > 0)), rel=1e-4)
    assert found.numerical == 4
    assert found.positions == 30


def test_a_shift_of_all_words_is_nothing() -> None:
    logits = torch.randn(20, 3) @ torch.randn(3, 40)
    shifted = logits + 5 * torch.randn(20, 1)
    assert rank_of(logits).numerical == 3
    assert rank_of(shifted).numerical == 3
    assert rank_of(shifted).effective == pytest.approx(rank_of(logits).effective, rel=1e-3)


def test_partitions_break_the_bottleneck() -> None:
    windows = Windows(torch.randint(0, 290, (600,), generator=torch.Generator().manual_seed(0)), 60)
    plain, cpr = (
        effective_rank(tiny_causal.model(name), windows, positions=200) for name in ("plain", "softmax+cpr:3,9")
    )
    assert plain.positions == cpr.positions == 200
    assert plain.numerical == 15, "the hidden size, without the mean that layer normalisation takes away"
    assert cpr.numerical > 30
    assert cpr.effective > plain.effective


def test_fewer_positions_than_wanted() -> None:
    windows = Windows(torch.arange(20), 7)
    assert effective_rank(tiny_causal.model("plain"), windows).positions == 20
    with pytest.raises(ValueError, match="positions 1: expected 2 or more"):
        effective_rank(tiny_causal.model("plain"), windows, positions=1)
