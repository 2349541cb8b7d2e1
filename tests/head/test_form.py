"""The form of differences: L^f_C, L^f_E and L^f_R are learnt as what they add to L^f_V. The same functions."""

import pytest
import torch
from cases import Case, every_method, random_shape
from contract import agree

from unbottle.head import Head, HeadConfig
from unbottle.spec import Method

METHODS = [(name, kind) for name, kind in every_method() if set(Method.parse(name).letters) & set("cer")]


@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_every_path_equals_the_oracle(method: str, encoder_decoder: bool) -> None:
    agree(Case(method, encoder_decoder, random_shape(5), seed=6, form="difference"))


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
    with pytest.raises(ValueError, match="form 'sum': expected one of separate, difference"):
        HeadConfig(method=Method.parse("softmax+c"), hidden_size=3, vocabulary=9, form="sum")
