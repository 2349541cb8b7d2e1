"""Sparse products and additive attention equal what is written out."""

import sys

import pytest
import torch

from unbottle.ops import WeightGradient, additive, dots

GENERATOR = torch.Generator().manual_seed(0)


def draw(*size: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(size, generator=GENERATOR, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("block", [1, 2**22])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (1, 1, 1), (2, 3, 0)])
def test_dots(shape: tuple[int, ...], dtype: torch.dtype, block: int, monkeypatch) -> None:
    """Words in any order, some of them twice: shared by the positions (#T = 1) or each position's own."""
    monkeypatch.setattr(sys.modules["unbottle.ops.sampled_matmul"], "BLOCK", block)
    batch, _, count = shape
    f, weight = draw(batch, 3, 5, dtype=dtype), draw(7, 5, dtype=dtype)
    ids = torch.randint(0, 7, shape, generator=GENERATOR)
    want = (weight[ids] * f[:, :, None]).sum(-1)
    upstream = torch.randn(batch, 3, count, generator=GENERATOR, dtype=torch.float64).to(dtype)
    close = {"atol": 0.1, "rtol": 0.05} if dtype == torch.bfloat16 else {}
    for place in (None, WeightGradient(weight)):
        got = dots(f, weight, ids, place)
        torch.testing.assert_close(got, want, **close)
        wanted = torch.autograd.grad(want, (f, weight), upstream, retain_graph=True)
        to_f, to_weight = torch.autograd.grad(got, (f, weight), upstream, allow_unused=True)
        torch.testing.assert_close(torch.zeros_like(f) if to_f is None else to_f, wanted[0], **close)
        found = to_weight if place is None else place.total().to(dtype)
        torch.testing.assert_close(torch.zeros_like(weight) if found is None else found, wanted[1], **close)


@pytest.mark.parametrize("waiting", [1, 10**6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_of_several_sets_are_added_at_once(dtype: torch.dtype, waiting: int, monkeypatch) -> None:
    """Sets of different sizes, and a large product between them, whether they wait for each other or not."""
    monkeypatch.setattr(sys.modules["unbottle.ops.sampled_matmul"], "WAITING", waiting)
    weight = draw(7, 5, dtype=dtype)
    place, want = WeightGradient(weight), torch.zeros(7, 5, dtype=torch.float64)
    for count in (4, 2, 3):
        f, own, shared = draw(2, 3, 5, dtype=dtype), (2, 3, count), (2, 1, count)
        for shape in (own, shared):
            ids = torch.randint(0, 7, shape, generator=GENERATOR)
            got, written_out = dots(f, weight, ids, place), (weight[ids] * f[:, :, None]).sum(-1)
            got.sum().backward()
            want += torch.autograd.grad(written_out.sum(), weight)[0]
        gradient, rows = draw(6, 7, dtype=dtype).detach(), draw(6, 5, dtype=dtype).detach()
        place.add_product(gradient, rows)
        want += gradient.double().mT @ rows.double()
    close = {"atol": 0.2, "rtol": 0.05} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(place.total().double(), want, **close)
    torch.testing.assert_close(place.total().double(), want, **close)  # nothing is added twice


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4)])
def test_what_is_compiled_is_the_same_product(shape: tuple[int, ...], monkeypatch) -> None:
    f, weight, ids = draw(2, 3, 5), draw(7, 5), torch.randint(0, 7, shape, generator=GENERATOR)
    query, key, b, v = draw(2, 3, 5), draw(2, 4, 5), draw(5), draw(5)
    eager = dots(f, weight, ids), additive(query, key, b, v)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    compiled = dots(f, weight, ids), additive(query, key, b, v)
    for mine, his, leaves in zip(eager, compiled, ((f, weight), (query, key, b, v)), strict=True):
        torch.testing.assert_close(mine, his)
        gradients = (torch.autograd.grad(each.sin().sum(), leaves) for each in (mine, his))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("block", [1, 100, 2**20])
def test_additive_leaves_out_what_nobody_sees(block: int, monkeypatch) -> None:
    """Scores and gradients are right where a key is seen, whatever stands where none is."""
    monkeypatch.setattr(sys.modules["unbottle.ops.additive_attention"], "BLOCK", block)
    leaves = query, key, b, v = draw(2, 5, 3), draw(2, 6, 3), draw(3), draw(3)
    visible = torch.ones(2, 5, 6, dtype=torch.bool).tril()
    visible[1, :, 0] = False  # so the first position of a row sees nothing
    want = (torch.tanh(query[:, :, None] + key[:, None] + b) @ v).where(visible, 0)
    got = additive(query, key, b, v, visible)
    assert (got[:, 0, 1:] == 0).all() or block != 1  # not computed
    torch.testing.assert_close(got.where(visible, 0), want)
    upstream = torch.randn(want.shape, generator=GENERATOR, dtype=torch.float64)
    mine = torch.autograd.grad(got.where(visible, 0), leaves, upstream)
    torch.testing.assert_close(mine, torch.autograd.grad(want, leaves, upstream))


@pytest.mark.parametrize("block", [1, 50, 2**20])
@pytest.mark.parametrize("tokens", [4, 0])
def test_additive(tokens: int, block: int, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["unbottle.ops.additive_attention"], "BLOCK", block)
    query, key, b, v = draw(2, 3, 5), draw(2, tokens, 5), draw(5), draw(5)
    want = torch.tanh(query[:, :, None] + key[:, None] + b) @ v
    got = additive(query, key, b, v)
    torch.testing.assert_close(got, want)
    upstream = torch.randn(want.shape, generator=GENERATOR, dtype=torch.float64)
    leaves = (query, key, b, v)
    for mine, his in zip(
        torch.autograd.grad(got, leaves, upstream), torch.autograd.grad(want, leaves, upstream), strict=True
    ):
        torch.testing.assert_close(mine, his)
