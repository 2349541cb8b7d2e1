"""InPlaceLogits without gradients: log Z is read and the logits stay as they are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unbottle.ops import InPlaceLogits, Tape, Words, Write
from unbottle.ops.inplace_logits import READ, SAMPLE

WORDS, COLUMNS = 5 * SAMPLE, 6 * SAMPLE


def made(values: Tensor) -> InPlaceLogits:
    """Logits of these values, in a buffer with columns to spare."""
    batch, positions, words = values.shape
    buffer = values.new_full((batch * positions, COLUMNS), torch.nan)
    buffer[:, :words] = values.flatten(0, 1)
    return InPlaceLogits(buffer, words, positions, Tape(records=False))


def some(dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (4 * torch.randn(3, READ - 1, WORDS, generator=generator, dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("forced", [False, True])
def test_log_Z_is_as_exact_as_the_reference_and_leaves_the_logits(
    forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unbottle.ops.device.FORCED", forced)
    values = some()
    logits = made(values)
    exact = values.double().logsumexp(-1)
    log_Z, reference = logits.logsumexp(), values[..., 0] - values.log_softmax(-1)[..., 0]
    error, allowed = ((result.double() - exact).abs().max().item() for result in (log_Z, reference))
    print(f"error {error:.2e}, of torch.log_softmax {allowed:.2e}, log Z up to {exact.max().item():.1f}")
    assert error <= 1.5 * allowed
    assert torch.equal(logits.values, values)


def test_log_Z_where_the_columns_looked_at_first_are_excluded() -> None:
    values = some(torch.float64)
    values[1, 2, :: WORDS // SAMPLE] = -torch.inf
    torch.testing.assert_close(made(values).logsumexp(), values.logsumexp(-1))


def test_log_Z_after_a_write_to_words_that_are_not_present() -> None:
    """What is not present is written to a column to spare, which must not count."""
    values = some(torch.float64)
    ids = torch.tensor([3, 5, 8]).expand(3, 1, 3)
    words = Words(ids, torch.tensor([True, False, True]).expand(3, READ - 1, 3))
    logits = made(values)
    before = logits.logsumexp()
    logits.overwrite(Write("C", words, logits.at(words), torch.full((3, READ - 1, 3), 50.0, dtype=torch.float64)))
    values[..., [3, 8]] = 50.0
    torch.testing.assert_close(logits.logsumexp(), values.logsumexp(-1))
    assert not torch.equal(before, logits.logsumexp())
