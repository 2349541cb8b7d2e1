"""Forms: "difference", L^f_C, L^f_E and L^f_R are learnt as what they add to L^f_V; "steady", and states are tamed."""

import pytest
import torch
from cases import Case, every_method, random_shape
from contract import agree

from unbottle.head import Embedding, Head, HeadConfig, States
from unbottle.spec import Method

METHODS = [(name, kind) for name, kind in every_method() if set(Method.parse(name).letters) & set("cer")]
TAMED = [(name, kind) for name, kind in every_method() if Method.parse(name).base != "none"]


@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_every_path_equals_the_oracle(method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, form="difference"))


@pytest.mark.parametrize(("method", "encoder_decoder"), TAMED)
def test_steady_equals_the_oracle(method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, form="steady"))


@pytest.mark.parametrize("name", ["softmax+cpr:2,4+mi", "softmax+ci+mi", "mos+mi", "ps+mi", "pg+mi"])
def test_large_states_do_not_make_large_steps(name: str) -> None:
    """Two steps of Adam on a fresh head whose lower layers are a thousand times as large as the last."""
    moved = {}
    for form in ("separate", "steady"):
        torch.manual_seed(0)
        config = HeadConfig(method=Method.parse(name), hidden_size=32, vocabulary=50, form=form)
        head = Head(config)
        layers = torch.randn(1, 12, 3, 32) * torch.tensor([10.0, 10_000.0, 10_000.0])[:, None]
        states = States(layers=layers, ids=torch.randint(0, 20, (1, 12)))
        embedding = Embedding(weight=torch.randn(50, 32) / 32)
        optimizer = torch.optim.Adam(head.parameters(), lr=1e-3, eps=1e-12)
        before = head(states, embedding).log_probs().detach()
        for _ in range(2):
            optimizer.zero_grad()
            head(states, embedding).log_probs()[0, :, 3].sum().neg().backward()
            optimizer.step()
        after = head(states, embedding).log_probs().detach()
        moved[form] = float((after - before).abs().max())
    assert moved["separate"] > 50 > 10 > moved["steady"], moved


def test_differences_start_at_nothing_and_the_rest_as_always() -> None:
    method = Method.parse("softmax+cepr:2,4+mi")
    head = Head(HeadConfig(method=method, hidden_size=3, vocabulary=9, encoder_decoder=True, form="difference"))
    starts = {name: projection.weight.max().item() for name, projection in head.L.items()}
    assert {name for name, start in starts.items() if start == 0} == {"C", "E", "R1", "R2"}
    assert {name for name, start in starts.items() if start == 1} == {"V"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nothing_stays_nothing_in_half_precision(dtype: torch.dtype) -> None:
    config = HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form="difference")
    head = Head(config).to(dtype)
    head.reset_projections()
    assert not head.L["C"].weight.any()


def test_only_known_forms() -> None:
    with pytest.raises(ValueError, match="form 'sum': expected one of separate, difference, steady"):
        HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form="sum")
