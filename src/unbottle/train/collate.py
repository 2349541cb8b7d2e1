"""Collate: windows become a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

PADDING = {"input_ids": 0, "labels": -100}  # under the mask, any word will do


def collate(windows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Rows of equal length; only a batch with a shorter window is padded, and only it gets an attention mask."""
    batch = {
        name: pad_sequence([window[name] for window in windows], batch_first=True, padding_value=PADDING.get(name, 0))
        for name in windows[0]
    }
    lengths = torch.tensor([len(window["input_ids"]) for window in windows])
    if (lengths != lengths.max()).any():
        batch["attention_mask"] = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    return batch
