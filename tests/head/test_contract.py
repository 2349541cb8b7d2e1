"""Every method on every path equals the oracle: values, gradients, losses, the words that changed."""

import oracle
import pytest
import torch
from cases import PATHS, Case, every_method, random_shape
from contract import TOLERANCE, agree, expected, gradients
from hypothesis import given
from hypothesis import strategies as st
from strategies import methods, shapes


@pytest.mark.parametrize("convention", ["paper", "release"])
@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
def test_equals_oracle(method: str, encoder_decoder: bool, convention: str) -> None:
    agree(Case(method, encoder_decoder, random_shape(1), seed=2, convention=convention))


@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
def test_equals_oracle_on_the_path_of_accelerators(method: str, encoder_decoder: bool, monkeypatch) -> None:
    monkeypatch.setattr("unbottle.ops.device.FORCED", True)
    agree(Case(method, encoder_decoder, random_shape(1), seed=2), paths=["whole", "tokens"])


@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
def test_equals_oracle_with_output_quirks(method: str, encoder_decoder: bool) -> None:
    """Bias, scale and soft-cap of the model reach every global dot product and no local one."""
    agree(Case(method, encoder_decoder, random_shape(3), seed=4, quirks=True), paths=["whole", "tokens"])


@given(shape=shapes(), method=methods(), seed=st.integers(0, 99), data=st.data())
def test_equals_oracle_for_any_method_and_shape(shape, method, seed, data) -> None:
    convention = data.draw(st.sampled_from(["paper", "release"]))
    agree(Case(*method, shape, seed=seed, convention=convention), paths=["whole", "chunks", "tokens"])


@given(
    shape=shapes(),
    method=st.sampled_from([pair for pair in every_method() if "mi" not in pair[0] and "r:" in pair[0]]),
    seed=st.integers(0, 99),
)
def test_ties_go_to_the_lower_id(shape, method, seed) -> None:
    """Small exact numbers: logits tie all the time, and every path must choose the same words."""
    agree(Case(*method, shape, seed=seed, exact=True), paths=["whole", "chunks", "tokens"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unbottle.ops.device.FORCED", True)
        agree(Case(*method, shape, seed=seed, exact=True), paths=["whole"])


@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
def test_loss_is_minus_the_log_probability_of_the_label(method: str, encoder_decoder: bool) -> None:
    case = Case(method, encoder_decoder, random_shape(5), seed=6)
    labels = torch.tensor(case.shape.ids).roll(-1, 1)
    labels[0, 0] = -100
    chosen = expected(case).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    want = torch.where(labels == -100, 0, -chosen)
    want_gradients = gradients(case, want, torch.ones_like(want))
    for path in PATHS:
        start, losses = 0, []
        for distribution in PATHS[path](case):
            length = distribution.logits[0].values.shape[1]
            losses.append(distribution.nll(labels[:, start : start + length]))
            start += length
        got = torch.cat(losses, dim=1)
        torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
        for name, grad in gradients(case, got, torch.ones_like(got)).items():
            torch.testing.assert_close(grad, want_gradients[name], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("convention", ["paper", "release"])
@pytest.mark.parametrize(("method", "encoder_decoder"), every_method())
def test_only_words_in_S_change_and_the_last_writer_is_known(method, encoder_decoder, convention) -> None:
    case = Case(method, encoder_decoder, random_shape(7), seed=8, convention=convention)
    (distribution,) = case.whole()
    logits = distribution.logits[0]
    writer, names = logits.writers()
    x = case.head.inputs(case.states(), case.embedding, source=case.source, second_pass=case.second_pass)
    f_V = x.h if method == "none" else case.head.L["V"](x.q)
    plain = case.embedding.logits(f_V)
    assert torch.equal(logits.values[writer == 0], plain[writer == 0])
    for b, row in enumerate(case.shape.ids):
        for t in range(len(row)):
            sets = oracle.sets(case.oracle(), b, t)
            last = {word: name for name, words in sets.items() for word in words}
            assert {w: names[k] for w, k in enumerate(writer[b, t].tolist()) if k} == last
            for write in logits.written:
                present = write.words.present.expand_as(write.scores)[b, t]
                written = write.words.expanded(len(row))[b, t][present].tolist()
                assert len(written) == len(set(written))
                assert set(written) == sets[write.name]


@pytest.mark.parametrize("method", ["softmax+wbwr:3+mi", "softmax+cpr:3,6+wbwr:3+mi", "mos:2+cp+wbwr:3"])
def test_two_stages_are_both_predicted(method: str) -> None:
    case = Case(method, False, random_shape(9), seed=10)
    (distribution,) = case.whole()
    want = expected(case, oracle.first_stage)
    got = distribution.first_stage.log_probs()
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
    upstream = torch.randn(want.shape, generator=case.generator, dtype=torch.float64)
    want_gradients = gradients(case, want, upstream)
    for name, grad in gradients(case, got, upstream).items():
        torch.testing.assert_close(grad, want_gradients[name], atol=TOLERANCE, rtol=TOLERANCE)
    assert not torch.allclose(distribution.log_probs(), want)
