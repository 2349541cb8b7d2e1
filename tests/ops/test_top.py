"""Top-k that every path agrees on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbottle.ops import top
from unbottle.ops.logits import top_operator


def by_sorting(row: list[float], k: int) -> list[int]:
    return sorted(sorted(range(len(row)), key=lambda column: (-row[column], column))[:k])


@given(
    rows=st.integers(1, 30).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=width, max_size=width),
            min_size=1,
            max_size=4,
        )
    ),
    k=st.integers(1, 35),
)
def test_ties_go_to_the_lower_column(rows: list[list[float]], k: int) -> None:
    for forced in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("unbottle.ops.device.FORCED", forced)
            assert top(torch.tensor(rows), k).tolist() == [by_sorting(row, k) for row in rows]


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_many_ties_in_a_wide_row(dtype: torch.dtype, forced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.ops.device.FORCED", forced)
    values = torch.randn(3, 5, 2000, generator=torch.Generator().manual_seed(0)).mul(4).round().to(dtype)
    want = values.sort(dim=-1, descending=True, stable=True).indices[..., :50].sort(-1).values
    assert torch.equal(top(values, 50), want)


def test_compiles_as_one_graph() -> None:
    values = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.compile(lambda v: top(v, 7), fullgraph=True, backend="aot_eager")(values), top(values, 7))
    torch.library.opcheck(top_operator, (values, 7))


@pytest.mark.parametrize("width", [5000, 12800])  # a whole number of blocks or not
@pytest.mark.parametrize("forced", [False, True])
def test_ties_that_reach_beyond_the_candidates(forced: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but one value tie, and more of them than are looked at first; NaN counts as the largest, as for sort."""
    monkeypatch.setattr("unbottle.ops.device.FORCED", forced)
    values = torch.zeros(3, width)
    values[1, 4321] = 1.0
    values[2, 17] = torch.nan
    want = values.sort(dim=-1, descending=True, stable=True).indices[..., :20].sort(-1).values
    assert torch.equal(top(values, 20), want)


@pytest.mark.parametrize("positions", [3, 20])  # few rows, and enough of them for two sizes of blocks
@pytest.mark.parametrize("values", ["normal", "rounded", "excluded"])
def test_wide_rows_are_searched_by_blocks(values: str, positions: int) -> None:
    rows = torch.randn(2, positions, 32 * 200, generator=torch.Generator().manual_seed(0))
    if values == "rounded":
        rows = rows.mul(50).round()
    if values == "excluded":
        rows[..., 5:] = -torch.inf
    want = rows.sort(dim=-1, descending=True, stable=True).indices[..., :20].sort(-1).values
    assert torch.equal(top(rows, 20), want)
