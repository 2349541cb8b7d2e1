"""What it means to equal the oracle."""

import oracle
import torch
from cases import PATHS, Case

TOLERANCE = 1e-10


def gradients(case: Case, outcome: torch.Tensor, upstream: torch.Tensor) -> dict[str, torch.Tensor]:
    leaves = case.leaves
    found = torch.autograd.grad(outcome, list(leaves.values()), upstream, allow_unused=True)
    pairs = zip(leaves.items(), found, strict=True)
    return {name: torch.zeros_like(leaf) if grad is None else grad for (name, leaf), grad in pairs}


def expected(case: Case, stage=oracle.log_probs) -> torch.Tensor:
    return torch.stack([torch.stack(row) for row in stage(case.oracle())])


def log_probs(case: Case, path: str) -> torch.Tensor:
    return torch.cat([distribution.log_probs() for distribution in PATHS[path](case)], dim=1)


def agree(case: Case, paths=tuple(PATHS)) -> None:
    """Values and gradients of every parameter, for some upstream gradient."""
    want = expected(case)
    upstream = torch.randn(want.shape, generator=case.generator, dtype=torch.float64)
    want_gradients = gradients(case, want, upstream)
    for path in paths:
        got = log_probs(case, path)
        torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
        torch.testing.assert_close(got.exp().sum(-1), torch.ones_like(got[..., 0]), atol=TOLERANCE, rtol=0)
        got_gradients = gradients(case, got, upstream)
        for name, grad in want_gradients.items():
            torch.testing.assert_close(
                got_gradients[name],
                grad,
                atol=TOLERANCE,
                rtol=TOLERANCE,
                msg=lambda m, n=name, p=path: f"{p} {n}: {m}",
            )
