"""Forms: the same functions, learnt in other ways."""

import itertools
from dataclasses import replace

import pytest
import torch
from cases import Case, every_method, random_shape
from contract import agree

from unbottle.head import Embedding, Head, HeadConfig, States
from unbottle.head.projection import FORMS
from unbottle.method import Method

METHODS = [(name, kind) for name, kind in every_method() if Method.parse(name).base != "none"]
SHARING = [(name, kind) for name, kind in METHODS if set(Method.parse(name).letters) & set("cer")]


@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
@pytest.mark.parametrize("form", ["balanced", "scaled", "steady"])
def test_every_path_equals_the_oracle(form: str, method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, form=form))


@pytest.mark.parametrize(("method", "encoder_decoder"), SHARING)
def test_residual_equals_the_oracle(method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, form="residual"))


@pytest.mark.parametrize("name", ["softmax+cpr:2,4+mi", "softmax+ci+mi", "mos+mi", "ps+mi", "pg+mi"])
def test_large_states_do_not_make_large_steps(name: str) -> None:
    """Two steps of Adam on a fresh head whose lower layers are a thousand times as large as the last."""
    moved = {}
    for form in ("paper", "steady", "scaled", "balanced"):
        torch.manual_seed(0)
        config = HeadConfig(method=Method.parse(name), hidden_size=32, vocabulary=50, form=form)
        head = Head(config)
        layers = torch.randn(1, 12, 3, 32) * torch.tensor([10.0, 10_000.0, 10_000.0])[:, None]
        states = States(layers=layers, ids=torch.randint(0, 20, (1, 12)))
        embedding = Embedding(weight=torch.randn(50, 32) / 32)
        optimizer = torch.optim.Adam(head.parameters(), lr=1e-3, eps=1e-12)
        before = head(states, embedding).distribution.log_probs().detach()
        for _ in range(2):
            optimizer.zero_grad()
            head(states, embedding).distribution.log_probs()[0, :, 3].sum().neg().backward()
            optimizer.step()
        after = head(states, embedding).distribution.log_probs().detach()
        moved[form] = float((after - before).abs().max())
    assert moved["paper"] > 50 > 10 > max(moved["steady"], moved["scaled"], moved["balanced"]), moved


def test_differences_start_at_nothing_and_the_rest_as_always() -> None:
    method = Method.parse("softmax+cepr:2,4+mi")
    head = Head(HeadConfig(method=method, hidden_size=3, vocabulary=9, encoder_decoder=True, form="residual"))
    starts = {name: projection.weight.max().item() for name, projection in head.L.items()}
    assert {name for name, start in starts.items() if start == 0} == {"C", "E", "R1", "R2"}
    assert {name for name, start in starts.items() if start == 1} == {"V"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nothing_stays_nothing_in_half_precision(dtype: torch.dtype) -> None:
    config = HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form="residual")
    head = Head(config).to(dtype)
    head.reset_projections()
    assert not head.L["C"].weight.any()


def test_only_known_forms() -> None:
    with pytest.raises(
        ValueError, match="form 'sum': expected one of scaled, balanced, paper, folded, residual, steady"
    ):
        HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form="sum")


def test_old_names() -> None:
    """Files of older versions load as what they were."""
    for old, new in (("separate", "paper"), ("difference", "residual")):
        made = HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form=old)
        assert made.form == made.to_dict()["form"] == new


@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_a_folded_head_predicts_the_same(method: str, encoder_decoder: bool) -> None:
    for form in ("balanced", "scaled", "steady", "residual"):
        case = Case(method, encoder_decoder, random_shape(5), seed=6, form=form)
        (want,) = case.whole()
        learnt, case.head = case.head, case.head.fold()
        (found,) = case.whole()
        torch.testing.assert_close(found.log_probs(), want.log_probs(), rtol=1e-9, atol=1e-9)
        unit = learnt.L_h is not None and form != "residual"
        assert case.head.config.form == ("folded" if unit else "paper")
        assert {name: weight.shape for name, weight in case.head.named_parameters()} == {
            name: weight.shape for name, weight in learnt.named_parameters()
        }


def test_weights_of_another_form_are_refused() -> None:
    """Their names and shapes are the same, so nothing else would tell."""
    heads = {
        form: Head(HeadConfig(method=Method.parse("softmax+c+mi"), hidden_size=3, vocabulary=9, form=form))
        for form in ("balanced", "folded", "paper")
    }
    for have, want in itertools.permutations(heads, 2):
        with pytest.raises(ValueError, match=f"form .*{want!r}.*and this head has the form {have!r}"):
            heads[have].load_state_dict(heads[want].state_dict(), strict=False)
    for head in heads.values():
        head.load_state_dict(head.state_dict())
        head.load_state_dict({}, strict=False)


@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_forms_that_differ_in_speed_only_share_their_weights(method: str, encoder_decoder: bool) -> None:
    """An adapter that was trained when the default was another form predicts what it predicted."""
    for old, new in itertools.permutations(("balanced", "scaled")):
        case = Case(method, encoder_decoder, random_shape(5), seed=6, form=old)
        (want,) = case.whole()
        weights = case.head.state_dict()
        case.head = Head(replace(case.config, form=new)).double()
        case.head.load_state_dict(weights)
        (loaded,) = case.whole()
        torch.testing.assert_close(loaded.log_probs(), want.log_probs(), rtol=1e-9, atol=1e-9)
        assert {name: int(mark) for name, mark in case.head.named_buffers()} == {"form": FORMS[new].mark}


def test_where_a_scaled_head_starts() -> None:
    method = Method.parse("softmax+cepr:2,4+mi")
    head = Head(HeadConfig(method=method, hidden_size=4, vocabulary=9, encoder_decoder=True, source_size=6))
    keys = {"LD", "LE"}
    assert all(not projection.weight.any() for name, projection in head.L.items() if name not in keys)
    state = torch.randn(4)
    torch.testing.assert_close(head.L["LD"](torch.cat([state, torch.randn(4)])), state / 2)
    torch.testing.assert_close(head.L["V"](torch.cat([state, torch.randn(4)])), state)


@pytest.mark.parametrize("method", ["softmax+p", "ps", "pg", "copynet"])
def test_both_factors_learn(method: str) -> None:
    """From the first of ten steps of AdamW with its usual eps, which is far above the gradients where both start at
    1e-10, so that they need some steps to grow."""
    moved = {}
    for form in ("scaled", "paper"):
        torch.manual_seed(0)
        head = Head(HeadConfig(method=Method.parse(method), hidden_size=32, vocabulary=50, form=form))
        before = {name: head.L[name].weight.detach().clone() for name in ("PD", "LD")}
        states = States(layers=torch.randn(2, 12, 1, 32), ids=torch.randint(0, 20, (2, 12)))
        embedding = Embedding(weight=torch.randn(50, 32))
        labels = states.ids.flip(1)
        optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
        for _ in range(10):
            optimizer.zero_grad()
            head(states, embedding).distribution.nll(labels).mean().backward()
            optimizer.step()
        moved[form] = min((head.L[name].weight.detach() - start).abs().mean().item() for name, start in before.items())
    assert moved["scaled"] > 7e-3 > moved["paper"], moved  # 1e-2 at most
