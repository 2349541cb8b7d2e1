"""The Triton kernels equal plain torch; through the head they equal the oracle.

On a GPU where there is one, else in Triton's interpreter (TRITON_INTERPRET=1), which takes CPU tensors.
"""

import importlib
import importlib.util
import os

import pytest
import torch
from cases import Case, random_shape
from contract import agree
from torch.nn import functional as F

from unbottle.ops import InPlaceLogits, Tape, Words, dots, top, triton
from unbottle.ops.sampled_matmul import Sampled, add_sampled, sampled, sampled_rows

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed: make test-triton", allow_module_level=True)
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not IS_INTERPRETED and not torch.cuda.is_available():
    pytest.skip("needs a GPU or TRITON_INTERPRET=1: make test-triton", allow_module_level=True)

functions = importlib.import_module("unbottle.ops.triton.functions")
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Switches the kernels on; the names of the functions that were called."""
    monkeypatch.setenv(triton.SWITCH, "1")
    called: list[str] = []
    for name in ("top", "logsumexp", "softmax_", "sampled", "sampled_rows", "add_sampled"):
        monkeypatch.setattr(functions, name, recorded(getattr(functions, name), called))
    return called


def recorded(function, called: list[str]):
    def call(*args):
        called.append(function.__name__)
        return function(*args)

    return call


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def random_ids(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)


# -- top


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 7, 40, 699, 700, 900])
def test_top(k: int, dtype: torch.dtype) -> None:
    """bfloat16 ties often; k near the width has fewer blocks than columns."""
    values = random(2, 3, 700, dtype=dtype)
    assert torch.equal(functions.top(values, k), by_sorting(values, k))


def by_sorting(values: torch.Tensor, k: int) -> torch.Tensor:
    return values.sort(dim=-1, descending=True, stable=True).indices[..., :k].sort().values


@pytest.mark.parametrize("k", [3, 20])
def test_ties_infinities_and_nan(k: int) -> None:
    """Rows of one value, -0.0 beside 0.0, -inf everywhere, more +inf or NaN than k, in one block or in many."""
    generator = torch.Generator().manual_seed(k)
    few = torch.tensor([-0.0, 0.0, 1.0, -torch.inf])
    rows = [torch.zeros(901), torch.full((901,), -torch.inf), few[random_ids(4, 901).cpu()]]
    for special in (torch.inf, torch.nan):
        row = random(901, dtype=torch.float32).cpu()
        row[torch.randperm(901, generator=generator)[: 2 * k]] = special
        rows.append(row)
    rows.append(torch.cat([torch.full((450,), torch.inf), torch.full((451,), torch.nan)]))
    values = torch.stack(rows).to(DEVICE)
    assert torch.equal(functions.top(values, k), by_sorting(values, k))


def test_top_of_rows_in_a_buffer() -> None:
    values = random(4, 2, 500)
    for view in (values[..., :333], values.transpose(0, 2), values[:, 0]):
        assert torch.equal(functions.top(view, 5), by_sorting(view, 5))


# -- log sum exp and its gradient


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 1024, 2500])
def test_logsumexp(width: int, dtype: torch.dtype) -> None:
    """Of the first columns of a buffer, whose last one is not to be read."""
    buffer = random(3, width + 1, dtype=dtype) * 30
    buffer[:, -1] = torch.nan
    expected = buffer[:, :-1].double().logsumexp(-1).to(dtype)
    torch.testing.assert_close(functions.logsumexp(buffer[:, :-1]), expected)


def test_logsumexp_of_infinities() -> None:
    values = random(5, 1500)
    values[0], values[1, 7], values[2, 8], values[3, 5:] = -torch.inf, torch.inf, torch.nan, -torch.inf
    values[4, :1400] = -torch.inf
    torch.testing.assert_close(functions.logsumexp(values), values.logsumexp(-1), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_in_place(dtype: torch.dtype) -> None:
    """What lies behind the columns that count is not touched."""
    buffer = random(3, 1501, dtype=dtype)
    buffer[0, 4], buffer[:, -1] = -torch.inf, 7
    expected = buffer[:, :-1].double().softmax(-1).to(dtype)
    log_Z = buffer[:, :-1].double().logsumexp(-1)
    functions.softmax_(buffer[:, :-1], log_Z)
    torch.testing.assert_close(buffer[:, :-1], expected)
    assert (buffer[:, -1] == 7).all()


# -- sampled products and their transposes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("positions", "words", "size"), [(1, 1, 1), (5, 21, 48), (3, 16, 130), (40, 3, 7)])
def test_sampled(positions: int, words: int, size: int, dtype: torch.dtype) -> None:
    """Few distinct words, so many repeat: more often than one program adds up."""
    f, weight = random(positions, size, dtype=dtype), random(9, size, dtype=dtype, seed=1)
    ids = random_ids(9, positions, words)
    gradient = random(positions, words, dtype=dtype, seed=3)
    rows = weight[ids].double()
    torch.testing.assert_close(functions.sampled(f, weight, ids), (rows @ f.double()[..., None])[..., 0].to(dtype))
    expected = (gradient.double()[:, None] @ rows)[:, 0].to(dtype)
    torch.testing.assert_close(functions.sampled_rows(gradient, weight, ids), expected)
    total = random(9, size, dtype=torch.promote_types(dtype, torch.float32))
    outer = (gradient[..., None].to(total.dtype) * f[:, None].to(total.dtype)).flatten(0, 1)
    expected = total.clone().index_add_(0, ids.flatten(), outer)
    functions.add_sampled(total, ids, gradient, f)
    torch.testing.assert_close(total, expected)


# -- behind the functions of ops


@pytest.mark.skipif(not IS_INTERPRETED, reason="about the interpreter")
def test_off_unless_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    monkeypatch.delenv(triton.SWITCH, raising=False)
    assert not triton.available(cpu)
    monkeypatch.setenv(triton.SWITCH, "1")
    assert triton.available(cpu)
    assert not triton.available(cuda)
    monkeypatch.delenv("TRITON_INTERPRET")
    assert triton.available(cuda)
    assert not triton.available(cpu)


@pytest.mark.parametrize("like", [random(0, 3), random_ids(2, 2)])
def test_not_for_empty_tensors_and_integers(like: torch.Tensor, on: list[str]) -> None:
    assert triton.implementation(like) is None


def test_functions_of_ops_call_them(on: list[str]) -> None:
    values, ids = random(2, 3, 50), random_ids(6, 2, 2)
    assert torch.equal(top(values, 4), by_sorting(values, 4))
    f, weight, total = random(2, 5), random(6, 5, seed=1), torch.zeros(6, 5, dtype=torch.float64, device=DEVICE)
    gradient = random(2, 2)
    torch.testing.assert_close(sampled(f, weight, ids), (weight[ids] @ f[..., None])[..., 0])
    bags = F.embedding_bag(ids, weight, mode="sum", per_sample_weights=gradient)
    torch.testing.assert_close(sampled_rows(gradient, weight, ids), bags)
    add_sampled(total, [Sampled(ids, gradient, f), Sampled(ids, gradient, f)])
    expected = torch.zeros_like(total).index_add_(0, ids.flatten(), (gradient[..., None] * f[:, None]).flatten(0, 1))
    torch.testing.assert_close(total, 2 * expected)
    assert on == ["top", "sampled", "sampled_rows", "add_sampled", "add_sampled"]


def test_deterministic_algorithms_do_without_atomic_sums(on: list[str]) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        add_sampled(random(3, 2), [Sampled(random_ids(3, 1, 1), random(1, 1), random(1, 2))])
    finally:
        torch.use_deterministic_algorithms(False)
    assert on == []


def test_gradients_of_dots(on: list[str]) -> None:
    f, weight = random(2, 3, 5).requires_grad_(), random(7, 5, seed=1).requires_grad_()
    ids = random_ids(7, 2, 3, 4)
    upstream = random(2, 3, 4)
    got = torch.autograd.grad(dots(f, weight, ids), (f, weight), upstream)
    want = torch.autograd.grad((weight[ids] @ f[..., None])[..., 0], (f, weight), upstream)
    torch.testing.assert_close(got, want)
    assert {*on} == {"sampled", "sampled_rows", "add_sampled"}


@pytest.mark.parametrize("first", ["logsumexp", "log_softmax", "at"])
def test_logits_in_place(first: str, on: list[str]) -> None:
    """Loss and gradient, whatever is read first: logits stay logits until they are asked for as something else."""
    values = random(2, 3, 20)
    words = Words(random_ids(20, 2, 1, 1), torch.ones(2, 1, 1, dtype=torch.bool, device=DEVICE))
    tape = Tape(records=True)
    buffer = torch.cat([values.flatten(0, 1), random(6, 1)], 1)
    logits = InPlaceLogits(buffer, 20, 3, tape)
    if first == "log_softmax":
        torch.testing.assert_close(logits.log_softmax(), values.log_softmax(-1))
    elif first == "at":
        torch.testing.assert_close(logits.at(words), values.gather(-1, words.expanded(3)))
    log_Z, at, mean = logits.logsumexp(), logits.at(words), logits.mean()
    tape.pull((log_Z.square() - at[..., 0] + mean).sum())
    got, scale = logits.gradient()
    leaf = values.clone().requires_grad_()
    log_Z = leaf.logsumexp(-1)
    loss = log_Z.square() - leaf.gather(-1, words.expanded(3))[..., 0] + leaf.mean(-1)
    (want,) = torch.autograd.grad(loss.sum(), leaf)
    torch.testing.assert_close(got * scale, want.flatten(0, 1))
    assert "logsumexp" in on
    assert ("softmax_" in on) == (first != "log_softmax")


# -- through the head


interpreted = pytest.mark.skipif(not IS_INTERPRETED, reason="the oracle is on the CPU")
METHODS = [
    ("softmax+cpr:2,4+mi", False), ("softmax+r:3", False), ("mos:2+cr:2,4", False), ("ps", False),
    ("softmax+cepr:2", True), ("copynet", True),
]  # fmt: skip


@interpreted
@pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)
def test_equals_oracle(method: str, encoder_decoder: bool, on: list[str]) -> None:
    """Values and gradients of every parameter."""
    agree(Case(method, encoder_decoder, random_shape(1), seed=2))
    if "r:" in method:
        assert {"top", "sampled", "sampled_rows", "add_sampled"} <= {*on}


@interpreted
@pytest.mark.parametrize("method", ["softmax+r:3", "softmax+cpr:2,4"])
def test_ties_go_to_the_lower_id(method: str, on: list[str]) -> None:
    agree(Case(method, False, random_shape(3), seed=4, exact=True))
    assert "top" in on
