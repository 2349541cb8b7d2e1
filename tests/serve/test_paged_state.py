"""A head predicts what the oracle says, whatever keeps its state: contiguous, static or paged. Needs no engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest
import torch
from cases import VOCABULARY, Case, Shape, every_method
from contract import expected
from torch import Tensor
from torch.nn import functional

from unbottle.head import Past, Projection
from unbottle.head.multi_input import MultiInput
from unbottle.hf import paged_state
from unbottle.hf.cache import StaticPast
from unbottle.hf.paged_state import Batch, Layout, PagedHead, as_bits, from_bits
from unbottle.method import Method

PAGE, LENGTH = 3, 9
METHODS = [name for name, seq2seq in every_method() if not seq2seq and not Method.parse(name).wbwr]
TOLERANCE = 1e-10
STEPS = ((4, 1, 0, 2), (1, 3, 5, 0), (4, 5, 4, 7))  # new tokens of each request, step by step


def texts(seed: int = 0) -> Shape:
    """Real words in one document, some of them repeated."""
    ids = torch.randint(VOCABULARY // 2, (len(STEPS[0]), LENGTH), generator=torch.Generator().manual_seed(seed))
    real = torch.ones_like(ids, dtype=torch.bool).tolist()
    return Shape(
        ids=ids.tolist(),
        mask=real,
        readable=real,
        documents=torch.zeros_like(ids).tolist(),
        source_ids=ids[:, :1].tolist(),
        source_mask=[row[:1] for row in real],
    )


def by_past(case: Case, past: Past) -> Tensor:
    """All requests in one batch, in steps of several sizes."""
    found = []
    for positions in (slice(0, 4), slice(4, 5), slice(5, 9)):
        prediction = case.head(case.states(positions), case.embedding, past=past)
        assert prediction.distribution is not None
        found.append(prediction.distribution.log_probs())
    return torch.cat(found, dim=1)


def by_pages(case: Case, between: int = 0) -> Tensor:
    """Requests in steps of their own, in pages that lie anywhere; predicted at all rows, and at the last ones.

    There may be something `between` the pages that nobody reads.
    """
    ids, layers = torch.tensor(case.shape.ids), case.layers
    paged = PagedHead(case.head, torch.float64)
    pages = 1 + torch.randperm(len(ids) * PAGE, generator=case.generator).view(len(ids), -1)
    columns = Layout.of(case.head, torch.float64).columns
    memory = torch.full((1 + pages.numel(), PAGE + between, columns), torch.nan).double()[:, :PAGE]
    found = torch.full((*ids.shape, VOCABULARY), torch.nan).double()
    done = torch.zeros(len(ids), dtype=torch.long)
    for step in torch.tensor(STEPS):
        active = step.nonzero()[:, 0]
        requests = active.repeat_interleave(step[active])
        places = torch.cat([torch.arange(done[r], done[r] + step[r]) for r in active])
        done = done + step
        starts = [0, *step[active].cumsum(0).tolist()]
        slots = pages[requests, places // PAGE] * PAGE + places % PAGE
        batch = Batch(starts, done[active].tolist(), pages[active], slots)
        q = paged.read(layers[requests, places], ids[requests, places], batch, memory)
        found[requests, places] = paged.scores(q, range(len(q)), case.embedding, batch, memory).log_softmax(-1)
        last = [end - 1 for end in starts[1:]]
        alone = paged.scores(q[last], last, case.embedding, batch, memory).log_softmax(-1)
        torch.testing.assert_close(alone, found[requests, places][last], atol=TOLERANCE, rtol=TOLERANCE)
    return found


WAYS: dict[str, Callable[[Case], Tensor]] = {
    "contiguous": lambda case: by_past(case, Past()),
    "static": lambda case: by_past(case, StaticPast(LENGTH + 2)),
    "paged": by_pages,
    "paged, with gaps": lambda case: by_pages(case, between=2),
}


@pytest.mark.parametrize("way", [*WAYS])
@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_the_oracle(method: str, way: str) -> None:
    case = Case(method, False, texts())
    torch.testing.assert_close(WAYS[way](case), expected(case), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("path", ["fused", "dense"])
def test_the_kernel_of_an_engine(path: Literal["fused", "dense"]) -> None:
    """All products with the vocabulary are those of the kernel, where an engine brings one."""
    case, calls = Case("mos:2+cpr:2,4", False, texts()), []

    def kernel(f: Tensor) -> Tensor:
        calls.append(len(f))
        return f @ case.embedding.weight.mT

    embedding = replace(case.embedding, kernel=kernel)
    case.head.path = path
    x = case.head.inputs(case.states(slice(0, LENGTH)), embedding)
    found = case.head.logits(x)[0].log_softmax(-1)
    assert len(calls) == 2  # one for each softmax
    torch.testing.assert_close(found, expected(case), atol=TOLERANCE, rtol=TOLERANCE)


def test_the_matrices_of_an_engine() -> None:
    """All products with the head's own matrices are those of kernels, where an engine brings them."""
    case = Case("softmax+cpr:2,4+mi", False, texts())
    wanted = expected(case)
    for layer in (case.head.L_h, *case.head.L.values()):
        assert isinstance(layer, MultiInput | Projection)
        bias = layer.bias.detach() if isinstance(layer, Projection) and layer.bias is not None else None
        layer.kernel = partial(functional.linear, weight=layer.weight.detach().clone(), bias=bias)
        layer.weight.data.fill_(torch.nan)
    torch.testing.assert_close(by_pages(case), wanted, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("most", [1, 60, 200])
def test_few_requests_at_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Logits stay in the order in which rows are asked for, however many fit into memory at once."""
    case = Case("softmax+cpr:2,4+mi", False, texts())
    monkeypatch.setattr(paged_state, "GATHERED", most)
    monkeypatch.setattr(paged_state, "PREDICTED", most)
    torch.testing.assert_close(by_pages(case), expected(case), atol=TOLERANCE, rtol=TOLERANCE)


def test_bits_survive() -> None:
    numbers = torch.tensor([0, 1, 31999, 2**31 - 1])
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(from_bits(as_bits(numbers, dtype)[[0, 1, 2, 3]]), numbers)
