"""What several processes read of each batch is, together, that batch."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from unbottle.train.distributed import BLANK, DistributedBatches, RowsWithBlank


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4))
def test_all_parts_are_the_batch(rows: int, processes: int, each: int) -> None:
    batch = processes * each
    parts = [[*DistributedBatches(range(rows), batch, rank, processes)] for rank in range(processes)]
    assert {len(part) for part in parts} == {len(DistributedBatches(range(rows), batch, 0, processes))}
    for number, together in enumerate(zip(*parts, strict=True)):
        read = sorted(row for part in together for row in part if row != BLANK)
        assert read == [*range(rows)][number * batch : (number + 1) * batch]
        assert all(0 < len(part) <= each for part in together)
        assert all(part == [BLANK] for part in together if BLANK in part)


def test_nothing_has_no_labels() -> None:
    rows = RowsWithBlank([{"input_ids": torch.tensor([5, 6]), "labels": torch.tensor([5, 6])}])
    assert rows[BLANK]["labels"].tolist() == [-100, -100]
    assert rows[BLANK]["input_ids"].tolist() == rows[0]["labels"].tolist() == [5, 6]
    assert len(rows) == 1
