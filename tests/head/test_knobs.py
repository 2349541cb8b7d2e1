"""Knobs equal the oracle with its scores shifted or its words restricted."""

import math
from dataclasses import replace

import oracle
import pytest
import torch
from cases import PATHS, VOCABULARY, Case, every_method, random_shape
from contract import TOLERANCE, log_probs

from unbottle.head import Knobs
from unbottle.method import Method

COPYING = {"C", "PD", "E", "PE"}
GATES = {"pg": {"gate.b_ptr": -1}, "ps": {"gate.b": 1}, "copynet": {"gate.b": 1}}


def copies(name: str) -> bool:
    method = Method.parse(name)
    return method.base in ("pg", "ps", "copynet") or bool(set("cep") & set(method.letters))


METHODS = [row for row in every_method() if copies(row[0])]
CASES = pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)


def build(method: str, encoder_decoder: bool, **options) -> Case:
    case = Case(method, encoder_decoder, random_shape(3), seed=4, **options)
    case.head.eval()
    return case


def biased(case: Case, bias: float) -> list[list[torch.Tensor]]:
    """The oracle with `bias` on what copies: a parameter of PG, PS and CopyNet, the logits of the other partitions."""
    given = case.oracle()
    parameters = {name: value.detach().clone() for name, value in given.parameters.items()}
    for name, sign in GATES.get(given.base, {}).items():
        parameters[name] += sign * bias
    partitioned = oracle.partitioned

    def shifted(case, b, t):
        logits, written = partitioned(case, b, t)
        words = set().union(*(words for name, words in written.items() if name in COPYING))
        return {word: logit + bias if word in words else logit for word, logit in logits.items()}, written

    oracle.partitioned = shifted
    try:
        return oracle.log_probs(replace(given, parameters=parameters))
    finally:
        oracle.partitioned = partitioned


def restricted(case: Case, found: list[list[torch.Tensor]], always: set[int]) -> list[list[torch.Tensor]]:
    """P(x | x is allowed), word by word."""
    side = "E" if case.config.encoder_decoder else "D"
    for b, row in enumerate(found):
        for t, log_prob in enumerate(row):
            allowed = set(oracle.occurrences(case.oracle(), side, b, t)) | always or set(range(VOCABULARY))
            total = math.log(sum(math.exp(log_prob[word]) for word in allowed))
            row[t] = torch.tensor(
                [log_prob[word] - total if word in allowed else -math.inf for word in range(VOCABULARY)],
                dtype=torch.float64,
            )
    return found


def equal(case: Case, want: list[list[torch.Tensor]]) -> None:
    expected = torch.stack([torch.stack(row) for row in want])
    for path in PATHS:
        got = log_probs(case, path)
        torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda m, p=path: f"{p}: {m}")
        torch.testing.assert_close(got.exp().sum(-1), torch.ones_like(got[..., 0]), atol=TOLERANCE, rtol=0)


@CASES
@pytest.mark.parametrize("bias", [2.0, -1.5])
@torch.no_grad()
def test_copy_bias(method: str, encoder_decoder: bool, bias: float) -> None:
    case = build(method, encoder_decoder)
    case.head.knobs = Knobs(copy_bias=bias)
    equal(case, biased(case, bias))


@CASES
@pytest.mark.parametrize("always", [(), (1, 12)])
@torch.no_grad()
def test_source_only(method: str, encoder_decoder: bool, always: tuple[int, ...]) -> None:
    case = build(method, encoder_decoder)
    case.head.knobs = Knobs(source_only=True, always_allowed=always)
    equal(case, restricted(case, oracle.log_probs(case.oracle()), set(always)))


@pytest.mark.parametrize("convention", ["paper", "release"])
@pytest.mark.parametrize("method", ["softmax+cpr:3,6", "mos:2+c", "ps+c", "copynet"])
@torch.no_grad()
def test_both_knobs_at_once(method: str, convention: str) -> None:
    case = build(method, False, convention=convention)
    case.head.knobs = Knobs(copy_bias=1.0, source_only=True, always_allowed=(1,))
    equal(case, restricted(case, biased(case, 1.0), {1}))


@CASES
def test_knobs_at_rest_change_no_bit(method: str, encoder_decoder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = build(method, encoder_decoder)
    before = log_probs(case, "whole")
    unturned = "work was done for knobs that are not turned"
    monkeypatch.setattr("unbottle.head.head.apply_knobs", lambda *args: pytest.fail(unturned))
    case.head.knobs = Knobs(always_allowed=(1,))
    assert torch.equal(log_probs(case, "whole"), before)


@CASES
def test_the_writers_stay_known(method: str, encoder_decoder: bool) -> None:
    case = build(method, encoder_decoder)
    (before,) = case.whole()
    case.head.knobs = Knobs(copy_bias=1.0, source_only=True)
    (after,) = case.whole()
    assert after.logits[0].writers()[1] == before.logits[0].writers()[1]
    if not case.config.method.wbwr:
        assert torch.equal(after.logits[0].writers()[0], before.logits[0].writers()[0])


@pytest.mark.parametrize("method", ["none", "softmax", "softmax+r:3+mi", "mos:2", "softmax+wbwr:3"])
@pytest.mark.parametrize("knobs", [Knobs(copy_bias=1.0), Knobs(source_only=True)])
def test_a_method_that_copies_nothing(method: str, knobs: Knobs) -> None:
    head = build(method, False).head
    head.knobs = Knobs()
    with pytest.raises(ValueError, match=rf"Knobs\(.*\): method '{method.split('+')[0]}.*' has nothing to copy"):
        head.knobs = knobs
    assert head.knobs == Knobs()


def test_training_under_knobs() -> None:
    case = build("softmax+c", False)
    case.head.knobs = Knobs(copy_bias=1.0)
    case.head.train()
    with pytest.raises(ValueError, match=r"training or labels under Knobs\(copy_bias=1.0.*knobs are for inference"):
        next(case.whole())


@pytest.mark.parametrize("bias", [math.inf, math.nan])
def test_a_bias_that_is_no_number(bias: float) -> None:
    with pytest.raises(ValueError, match=f"copy_bias {bias}: expected a finite number"):
        Knobs(copy_bias=bias)


@pytest.mark.parametrize("word", [-1, VOCABULARY])
def test_a_word_that_does_not_exist(word: int) -> None:
    case = build("softmax+c", False)
    case.head.knobs = Knobs(source_only=True, always_allowed=(word,))
    with pytest.raises(ValueError, match=f"always_allowed contains {word}: the vocabulary has words 0 to 12"):
        next(case.whole())


def test_a_source_without_words() -> None:
    case = build("softmax+c", True)
    case.shape.source_mask[1] = [False] * 4
    case.head.knobs = Knobs(source_only=True)
    with pytest.raises(ValueError, match="source_only: the encoder input of row 1 has no words to choose from"):
        next(case.whole())
