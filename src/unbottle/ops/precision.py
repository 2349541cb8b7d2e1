"""Where half precision ends: logits and softmax statistics are float32 or wider."""

import torch
from torch import Tensor


def widen(values: Tensor) -> Tensor:
    """float32 for bf16 and fp16, otherwise unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
