"""log of a sum of exponentials, with gradients that stay finite where everything is -inf."""

import torch
from torch import Tensor


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
