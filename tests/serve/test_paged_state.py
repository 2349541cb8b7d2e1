"""A head that reads its past from pages predicts what it predicts from a contiguous one. Needs no engine."""

from __future__ import annotations

import pytest
import torch
from cases import every_method

from unbottle.head import Embedding, Head, HeadConfig, States
from unbottle.method import Method
from unbottle.hf.paged_state import Batch, Layout, PagedHead, as_bits, from_bits

VOCABULARY, SIZE, PAGE = 13, 4, 3
METHODS = [name for name, seq2seq in every_method() if not seq2seq and not Method.parse(name).wbwr and name != "none"]
LENGTHS = (7, 1, 5, 7, 11)


def perturbed(method: str, dtype: torch.dtype = torch.float64) -> tuple[Head, Embedding]:
    torch.manual_seed(0)
    head = Head(HeadConfig(method=Method.parse(method), hidden_size=SIZE, vocabulary=VOCABULARY)).to(dtype).eval()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return head, Embedding(weight=torch.randn(VOCABULARY, SIZE, dtype=dtype))


def test_bits_survive() -> None:
    numbers = torch.tensor([0, 1, 31999, 2**31 - 1])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(from_bits(as_bits(numbers, dtype)[[0, 1, 2, 3]]), numbers)


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_pages_equal_a_contiguous_past(method: str) -> None:
    """Requests of several lengths, cut into steps of several sizes, in pages that lie anywhere."""
    head, embedding = perturbed(method, torch.float32)
    depth = head.config.block[0]
    layers = [torch.randn(length, depth, SIZE) for length in LENGTHS]
    ids = [torch.randint(VOCABULARY // 2, (length,)) for length in LENGTHS]
    wanted = [
        head(States(layers=states[None], ids=words[None]), embedding).logits[0]
        for states, words in zip(layers, ids, strict=True)
    ]
    paged = PagedHead(head, torch.float32)
    pages = 1 + torch.randperm(len(LENGTHS) * 4).view(len(LENGTHS), 4)
    memory = torch.full((1 + pages.numel(), PAGE, Layout.of(head, torch.float32).columns), torch.nan)
    done = [0] * len(LENGTHS)
    for step in ((3, 1, 2, 3, 1), (0, 0, 3, 1, 4), (4, 0, 0, 3, 6)):
        new = [range(start, start + count) for start, count in zip(done, step, strict=True)]
        active = [r for r, count in enumerate(step) if count]
        starts = torch.tensor([0, *(step[r] for r in active)]).cumsum(0).tolist()
        done = [start + count for start, count in zip(done, step, strict=True)]
        slots = torch.cat([pages[r, torch.tensor(new[r]) // PAGE] * PAGE + torch.tensor(new[r]) % PAGE for r in active])
        batch = Batch(starts, [done[r] for r in active], pages[active], slots)
        rows, words = (torch.cat([each[r][new[r].start : new[r].stop] for r in active]) for each in (layers, ids))
        q = paged.read(rows, words, embedding, batch, memory)
        for numbers in (range(len(q)), [end - 1 for end in starts[1:]]):
            expected = torch.cat([wanted[r][new[r].start : new[r].stop] for r in active])[[*numbers]]
            found = paged.scores(q[[*numbers]], [*numbers], embedding, batch, memory)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert done == list(LENGTHS)
