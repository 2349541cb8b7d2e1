"""OperatorCalls: which operators run, and which of them make a host wait for its device. Counted, never timed."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# what reads values, or has a result whose shape depends on them
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal", "bincount")


class OperatorCalls(TorchDispatchMode):
    """Inside a `with` block, the operators that compute (views do not), those that wait, and casts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.waits: list[str] = []
        self.casts: list[torch.Size] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("aten", "unbottle") and not func.is_view:
            name = func.overloadpacket.__name__
            self.calls.append(name)
            masked = name in ("index", "index_put_") and any(
                isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool for leaf in tree_leaves(args[1])
            )
            if name in WAITING or masked:
                self.waits.append(name)
            if name == "_to_copy" and result.dtype != args[0].dtype:
                self.casts.append(result.shape)
        return result
