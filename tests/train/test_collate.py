"""collate: what is padded is hidden, and only where something is."""

from __future__ import annotations

import torch

from unbottle.train.trainer import collate


def window(*ids: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}


def test_a_shorter_window_is_padded_and_hidden() -> None:
    found = {name: value.tolist() for name, value in collate([window(5, 6, 7), window(8), window(9, 10)]).items()}
    assert found == {
        "input_ids": [[5, 6, 7], [8, 0, 0], [9, 10, 0]],
        "labels": [[5, 6, 7], [8, -100, -100], [9, 10, -100]],
        "attention_mask": [[1, 1, 1], [1, 0, 0], [1, 1, 0]],
    }


def test_windows_of_equal_length_need_no_mask() -> None:
    assert collate([window(5, 6), window(7, 8)]).keys() == {"input_ids", "labels"}
