"""Numerics: logits and softmax statistics in float32 or wider, and logsumexp with finite gradients."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_gradients(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`torch.no_grad()` as a decorator, for small functions: it costs next to nothing where gradients are off."""

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        with torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


@contextlib.contextmanager
def float16_widened(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """Products of tiny numbers, which fp16 would round to zero: its tensors widened, its autocast off. bf16 can."""
    autocast = _autocasts(tensors[0]) and torch.get_autocast_dtype(tensors[0].device.type) == torch.float16
    with without_autocast(tensors[0]) if autocast else contextlib.nullcontext():
        yield [tensor.float() if autocast or tensor.dtype == torch.float16 else tensor for tensor in tensors]


def product_dtype(weight: Tensor) -> torch.dtype:
    """The dtype in which products with this weight are computed: that of autocast, where it is on."""
    return torch.get_autocast_dtype(weight.device.type) if _autocasts(weight) else weight.dtype


def without_autocast(like: Tensor) -> contextlib.AbstractContextManager:
    """Dtypes are chosen by hand in here."""
    return torch.autocast(like.device.type, enabled=False) if _autocasts(like) else contextlib.nullcontext()


def _autocasts(like: Tensor) -> bool:
    """Whether autocast is on. On the meta device, where shapes are computed only, torch refuses to say."""
    return not like.is_meta and torch.is_autocast_enabled(like.device.type)


def wide(dtype: torch.dtype) -> torch.dtype:
    """float32 for bf16 and fp16, otherwise the same: the dtype of logits and of sums of gradients."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def widen(values: Tensor) -> Tensor:
    """float32 for bf16 and fp16, otherwise unchanged."""
    return values.to(wide(values.dtype))


def logsumexp(values: Tensor, dim: int) -> Tensor:
    """Equals `values.logsumexp(dim)`; where all values are -inf the result is -inf and passes a gradient of zero."""
    highest = values.detach().amax(dim, keepdim=True)
    highest = highest.masked_fill(highest == -torch.inf, 0)
    total = (values - highest).exp().sum(dim)
    empty = total == 0
    return (total.masked_fill(empty, 1).log() + highest.squeeze(dim)).masked_fill(empty, -torch.inf)


def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """Equals `torch.logaddexp(a, b)`, but for the gradient where both are -inf: zero, not NaN."""
    if not torch.is_grad_enabled():
        return torch.logaddexp(a, b)
    return logsumexp(torch.stack(torch.broadcast_tensors(a, b)), 0)
