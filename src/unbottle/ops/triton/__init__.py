"""Triton kernels for GPUs, behind the functions of `ops`. Off unless UNBOTTLE_TRITON=1; needs the extra `triton`.

Plain torch is the reference: each kernel equals a function of it. With TRITON_INTERPRET=1 they run on CPU tensors.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

SWITCH = "UNBOTTLE_TRITON"
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@runtime_checkable
class Functions(Protocol):
    """What `functions.py` has."""

    def top(self, values: Tensor, k: int) -> Tensor: ...

    def logsumexp(self, values: Tensor) -> Tensor: ...

    def softmax_(self, values: Tensor, log_Z: Tensor) -> None: ...

    def sampled(self, f: Tensor, weight: Tensor, ids: Tensor) -> Tensor: ...

    def sampled_rows(self, gradient: Tensor, weight: Tensor, ids: Tensor) -> Tensor: ...

    def add_sampled(self, total: Tensor, ids: Tensor, gradient: Tensor, f: Tensor) -> None: ...


def available(device: torch.device) -> bool:
    """Whether the kernels are switched on for this device. ImportError if they are, but Triton is not installed."""
    if os.environ.get(SWITCH) != "1":
        return False
    if importlib.util.find_spec("triton") is None:
        raise ImportError(f"{SWITCH}=1, but Triton is not installed: pip install 'unbottle[triton]'")
    return device.type == ("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")


def implementation(like: Tensor) -> Functions | None:
    """The functions of `functions.py` if they are to be used for such a tensor, else None."""
    usable = not torch.compiler.is_compiling() and like.dtype in DTYPES and like.numel() > 0
    if not usable or not available(like.device):
        return None
    return cast(Functions, importlib.import_module("unbottle.ops.triton.functions"))
