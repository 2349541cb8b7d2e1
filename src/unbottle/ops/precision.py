"""Where half precision ends: logits and softmax statistics are float32 or wider."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor


@contextlib.contextmanager
def float16_widened(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """Products of tiny numbers, which fp16 would round to zero: its tensors widened, its autocast off. bf16 can."""
    kind = tensors[0].device.type
    autocast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.float16
    with without_autocast(tensors[0]) if autocast else contextlib.nullcontext():
        yield [tensor.float() if autocast or tensor.dtype == torch.float16 else tensor for tensor in tensors]


def product_dtype(weight: Tensor) -> torch.dtype:
    """The dtype in which products with this weight are computed: that of autocast, where it is on."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def without_autocast(like: Tensor) -> contextlib.AbstractContextManager:
    """Dtypes are chosen by hand in here."""
    on = torch.is_autocast_enabled(like.device.type)
    return torch.autocast(like.device.type, enabled=False) if on else contextlib.nullcontext()


def widen(values: Tensor) -> Tensor:
    """float32 for bf16 and fp16, otherwise unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
