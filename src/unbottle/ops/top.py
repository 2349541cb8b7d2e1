"""The k largest values of each row, the same set on every path."""

import torch
from torch import Tensor


@torch.library.custom_op("unbottle::top", mutates_args=())
def top(values: Tensor, k: int) -> Tensor:
    """Columns of the k largest values of each row, in ascending order; ties go to the lower column.

    Equals `values.sort(descending=True, stable=True).indices[..., :k].sort().values`. No gradient.
    A custom operator, because the repair of ties depends on the data and would break a compiled graph.
    """
    width = values.shape[-1]
    best, columns = values.detach().topk(min(k + 1, width), dim=-1)
    columns = columns[..., :k]
    if k < width:
        tied = best[..., k - 1] == best[..., k]  # the k-th and the next: only then does the kernel's order matter
        if tied.any():
            columns = columns.clone()
            columns[tied] = values.detach()[tied].sort(dim=-1, descending=True, stable=True).indices[:, :k]
    return columns.sort(dim=-1).values


@top.register_fake
def _(values: Tensor, k: int) -> Tensor:
    return values.new_empty((*values.shape[:-1], min(k, values.shape[-1])), dtype=torch.long)
