"""Some entries of a product, as the whole product has them."""

from __future__ import annotations

import pytest
import torch

from unbottle.ops.sampled_matmul import sampled


@pytest.mark.parametrize("words", [3, 7, 8, 20])
def test_more_words_than_the_vocabulary(words: int) -> None:
    """A context may be longer than a small vocabulary."""
    torch.manual_seed(0)
    f, weight, ids = torch.randn(4, 5), torch.randn(7, 5), torch.randint(0, 7, (4, words))
    assert torch.allclose(sampled(f, weight, ids), (f @ weight.mT).gather(1, ids), atol=1e-5)
