"""A checksum of all weights: is this the model of before, bit for bit?"""

from __future__ import annotations

import zlib
from typing import Any

import torch


def checksum(model: Any) -> str:
    """Of every weight and its name, head and all. Unlike a fingerprint it sees any change."""
    found = 0
    for name, value in model.state_dict().items():
        found = zlib.crc32(name.encode(), found)
        found = zlib.crc32(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"
