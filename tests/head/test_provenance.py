"""Where probability comes from: shares add up to it and are the oracle's, tokens are scored as the oracle does."""

import math
from dataclasses import replace

import oracle
import pytest
import torch
from cases import VOCABULARY, Case, every_method, random_shape
from contract import TOLERANCE
from torch import Tensor

from unbottle.head import Knobs
from unbottle.head.attribution import shares, token_masses, token_scores

KNOBS = [Knobs(), Knobs(copy_bias=1.3), Knobs(source_only=True), Knobs(copy_bias=-0.7, source_only=True)]
POINTERS = ("pg", "ps", "pg+cr:2", "copynet")


def build(method: str, encoder_decoder: bool) -> Case:
    case = Case(method, encoder_decoder, random_shape(3), seed=4)
    case.head.eval()
    return case


def watched(case: Case):
    """What the head computes with, and what it predicts."""
    seen = []
    case.head.watch = lambda *prediction: seen.append(prediction)
    next(case.whole())
    case.head.watch = None
    return seen[0]


def nothing() -> Tensor:
    return torch.full((VOCABULARY,), -math.inf, dtype=torch.float64)


def copied(given: oracle.Case, b: int, t: int) -> Tensor:
    """The copied probability of each word: what is left of the oracle when it generates nothing."""
    if given.base in ("pg", "ps"):
        return oracle.pointer(given, b, t, nothing()).exp()
    found = torch.zeros(VOCABULARY, dtype=torch.float64)
    if given.base == "copynet":
        log_Z = torch.logsumexp(torch.stack(list(oracle.partitioned(given, b, t)[0].values())), 0)
        for word, score in oracle.copynet_scores(given, b, t, dict(enumerate(nothing()))).items():
            found[word] = (score - log_Z).exp()
    return found


@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
@torch.no_grad()
def test_shares(method: str, encoder_decoder: bool) -> None:
    case = build(method, encoder_decoder)
    x, distribution = watched(case)
    found = shares(case.head, x, distribution)
    torch.testing.assert_close(sum(found.values()), distribution.log_probs().exp())
    given = case.oracle()
    for b, row in enumerate(case.shape.ids):
        for t in range(len(row)):
            written = {} if given.base == "copynet" else oracle.sets(given, b, t)
            last = dict.fromkeys(range(VOCABULARY), "V") | {w: name for name, words in written.items() for w in words}
            copy = copied(given, b, t)
            others = oracle.mixture(given, b, t, nothing()).exp() if given.base == "mos" else torch.zeros(VOCABULARY)
            generated = oracle.log_prob(given, b, t).exp() - copy - others
            for name in ("V", *written):
                want = [generated[word].item() if last[word] == name else 0 for word in range(VOCABULARY)]
                assert found[name][b, t].tolist() == pytest.approx(want, abs=1e-9), name
            if given.base in ("pg", "ps", "copynet"):
                assert found["COPY"][b, t].tolist() == pytest.approx(copy.tolist(), abs=1e-12)


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
@pytest.mark.parametrize("encoder_decoder", [False, True])
@pytest.mark.parametrize("method", [*POINTERS, "softmax+cpr:2", "mos:2+c"])
@torch.no_grad()
def test_shares_and_masses_under_knobs(method: str, encoder_decoder: bool, knobs: Knobs) -> None:
    case = build(method, encoder_decoder)
    case.head.knobs = knobs
    x, distribution = watched(case)
    found = shares(case.head, x, distribution)
    torch.testing.assert_close(sum(found.values()), distribution.log_probs().exp())
    masses = token_masses(case.head, x, distribution)
    assert set(masses) == ({encoder_decoder} if method in POINTERS else set())
    for side, mass in masses.items():
        ids = x.text(source=side).ids[:, None].expand_as(mass)
        torch.testing.assert_close(torch.zeros_like(found["COPY"]).scatter_add(-1, ids, mass), found["COPY"])


def distinct(case: Case) -> oracle.Case:
    """The oracle knows words, not tokens: so let all its words differ. Hidden states stay, and so do scores."""
    source = [[*range(4)]] * 2 if case.config.encoder_decoder else None
    return replace(case.oracle(), ids=[[*range(5)]] * 2, source_ids=source)


@pytest.mark.parametrize("encoder_decoder", [False, True])
@pytest.mark.parametrize("method", ["pg", "ps", "pg+cr:2"])
@torch.no_grad()
def test_the_mass_of_each_token(method: str, encoder_decoder: bool) -> None:
    case = build(method, encoder_decoder)
    (mass,) = token_masses(case.head, *watched(case)).values()
    for b in range(2):
        for t in range(5):
            want = copied(distinct(case), b, t)[: mass.shape[-1]].tolist()
            assert mass[b, t].tolist() == pytest.approx(want, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("method", "encoder_decoder", "sides"),
    [
        ("softmax+p", False, "D"),
        ("softmax+cpr:2+mi", False, "D"),
        ("mos:2+cep", True, "ED"),
        ("copynet", False, "D"),
        ("copynet+mi", True, "E"),
        ("pg", False, ""),
        ("softmax+cr:2", False, ""),
    ],
)
@torch.no_grad()
def test_the_score_of_each_token(method: str, encoder_decoder: bool, sides: str) -> None:
    case = build(method, encoder_decoder)
    x, _ = watched(case)
    scores, given = token_scores(case.head, x), distinct(case)
    assert set(scores) == {side == "E" for side in sides}
    for source, score in scores.items():
        visible = x.text(source=source).visible.expand(-1, 5, -1)
        for b in range(2):
            for t in range(5):
                if given.base == "copynet":
                    want = oracle.copynet_scores(given, b, t, dict(enumerate(nothing())))
                else:
                    want = oracle.local_scores(given, "E" if source else "D", b, t, dict.fromkeys(range(VOCABULARY), 0))
                places = visible[b, t].nonzero()[:, 0].tolist()
                assert places == sorted(want)
                assert score[b, t, places].tolist() == pytest.approx([float(want[p]) for p in places], abs=TOLERANCE)
