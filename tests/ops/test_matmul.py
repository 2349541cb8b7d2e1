"""linear: equal to F.linear, however many rows there are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbottle.ops import linear, multiplies_as_columns
from unbottle.ops.matmul import FEW, LARGE

WITH_MKL = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch was built without MKL")


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("large", [0, LARGE])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (2, 3), (1, FEW), (1, FEW + 1), (0, 1), (4,)])
@torch.no_grad()
def test_equals_torch(shape: tuple[int, ...], with_bias: bool, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.ops.matmul.LARGE", large)
    rows, weight = random(*shape, 16, dtype=torch.float64), random(40, 16, dtype=torch.float64)
    bias = random(40, dtype=torch.float64) if with_bias else None
    product = linear(rows, weight, bias)
    torch.testing.assert_close(product, F.linear(rows, weight, bias))
    assert product.is_contiguous()


@pytest.mark.parametrize("rows", [1, 2, 5])
@torch.no_grad()
def test_is_as_exact_as_torch(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.ops.matmul.LARGE", 0)
    x, weight = random(rows, 768), random(1000, 768)
    exact = F.linear(x.double(), weight.double())
    products = linear(x, weight), F.linear(x, weight)
    ours, theirs = ((product.double() - exact).abs().mean().item() for product in products)
    print(f"mean error {ours:.2e}, of F.linear {theirs:.2e}")
    assert ours <= 1.5 * theirs


@WITH_MKL
def test_few_rows_without_gradients_are_columns() -> None:
    rows, weight = random(2, 3, 16), nn.Parameter(random(40, 16))
    assert not multiplies_as_columns(rows, weight)
    with torch.no_grad():
        assert multiplies_as_columns(rows, weight)
        assert not multiplies_as_columns(random(1, FEW + 1, 16), weight)
        assert not multiplies_as_columns(random(1, 1, 16), weight)
        assert multiplies_as_columns(random(1, 1, 16), torch.empty(LARGE // 16, 16))
        assert not multiplies_as_columns(rows.bfloat16(), weight.bfloat16())
        with torch.autocast("cpu", torch.bfloat16):
            assert not multiplies_as_columns(rows, weight)


def test_gradients_are_those_of_torch() -> None:
    rows, weight = random(2, 3, 16).requires_grad_(), random(40, 16).requires_grad_()
    ours = torch.autograd.grad(linear(rows, weight).square().sum(), (rows, weight))
    theirs = torch.autograd.grad(F.linear(rows, weight).square().sum(), (rows, weight))
    torch.testing.assert_close(ours, theirs)
