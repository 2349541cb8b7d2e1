"""How many directions logits use, and how much of their gradient a hidden state can follow."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny_causal
import torch

from unbottle.data import Windows
from unbottle.eval.logit_rank import effective_rank, gradient_share, rank_of, share_of
from unbottle.hf.head_inputs import layers_of, states

WINDOWS = Windows(torch.randint(0, 290, (120,), generator=torch.Generator().manual_seed(0)), 30)


def test_rank_by_hand() -> None:
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


# -- share of the gradient


def test_a_linear_layer() -> None:
    """J is W: the norm of the projection to its columns, by least squares."""
    torch.manual_seed(0)
    weight, state = torch.randn(50, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    found = share_of(lambda changes: (state + changes) @ weight.T, 7, 4)
    gradient = (weight @ state).softmax(-1) - torch.nn.functional.one_hot(torch.tensor(7), 50)
    centred = weight - weight.mean(0)
    there = centred @ torch.linalg.lstsq(centred, gradient[:, None]).solution[:, 0]
    assert found == pytest.approx(float(there.norm() / gradient.norm()), rel=1e-6)
    assert 0 < found < 1


def test_logits_and_log_probabilities_are_the_same_distribution() -> None:
    torch.manual_seed(0)
    weight = torch.randn(50, 4, dtype=torch.float64) + 1
    shares = [share_of(lambda changes, of=of: of(changes @ weight.T), 7, 4) for of in (torch.clone, log_probabilities)]
    assert shares[0] == pytest.approx(shares[1], rel=1e-6)


def log_probabilities(logits: torch.Tensor) -> torch.Tensor:
    return logits.log_softmax(-1)


def test_all_of_it_where_nothing_is_lost() -> None:
    """As many dimensions as words; that all logits rise together is no part of a gradient."""
    torch.manual_seed(0)
    weight = torch.randn(5, 5, dtype=torch.float64)
    assert share_of(lambda changes: changes @ weight.T, 2, 5) == pytest.approx(1, rel=1e-6)


def test_a_fresh_head_is_the_plain_model() -> None:
    """J = W by hand, at the last of the tokens that are read."""
    import unbottle

    plain = tiny_causal.model("plain")
    ids = WINDOWS[0]["input_ids"][:9]
    with torch.no_grad():
        state = plain.transformer(ids[None, :-1]).last_hidden_state[0, -1].double()
    weight = plain.lm_head.weight.detach().double()
    wanted = share_of(lambda changes: (state + changes) @ weight.T, int(ids[-1]), 16)
    made = unbottle.attach(plain, "softmax+cpr:3,9+mi")
    found = gradient_share(made, [WINDOWS[0]], positions=1, context=8)
    assert found.share == pytest.approx(wanted, rel=1e-4)
    assert found.positions == 1


@pytest.mark.parametrize("method", ["softmax+mi", "mos+mi", "pg", "ps+mi", "softmax+cpr:3,9+mi"])
def test_every_method_has_one(method: str) -> None:
    found = gradient_share(tiny_causal.model(method), WINDOWS, positions=3, context=6)
    assert 0 < found.share < 1
    assert found.positions == 3


@pytest.mark.parametrize("method", ["softmax+mi", "softmax+cpr:3,9+mi"])
def test_a_head_that_learnt_and_reads_what_was_before(method: str) -> None:
    """J by automatic differentiation, of a head that is given all tokens at once."""
    made, ids = tiny_causal.model(method).double(), WINDOWS[0]["input_ids"][:9]
    with torch.no_grad():
        layers = layers_of(made, {"input_ids": ids[None, :-1]})

    def logits(change: torch.Tensor) -> torch.Tensor:
        last = torch.cat([layers[:, -1:, :1] + change, layers[:, -1:, 1:]], dim=2)
        here = states(torch.cat([layers[:, :-1], last], dim=1), ids[None, :-1], None, None, past=None)
        return made.head(here, made._embedding()).distribution.logits[0].values[0, -1]

    jacobian = torch.autograd.functional.jacobian(logits, torch.zeros(16, dtype=torch.float64))
    with torch.no_grad():
        gradient = logits(torch.zeros(16)).softmax(-1)
    gradient[ids[-1]] -= 1
    jacobian = jacobian - jacobian.mean(0)
    there = jacobian @ torch.linalg.lstsq(jacobian, gradient[:, None]).solution[:, 0]
    found = gradient_share(made, [WINDOWS[0]], positions=1, context=8)
    assert found.share == pytest.approx(float(there.norm() / gradient.norm()), rel=1e-5)


def test_refusals_of_the_share() -> None:
    with pytest.raises(ValueError, match="positions 0, context 32"):
        gradient_share(tiny_causal.model("ps"), WINDOWS, positions=0)
