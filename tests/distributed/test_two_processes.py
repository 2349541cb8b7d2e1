"""Two processes with half of the batch each end where one process with the whole batch ends."""

import socket
from pathlib import Path

import pytest
import torch
from two_processes import model_of, one_of_two, train

CASES = [
    ("gpt2", "softmax+cpr:5,20+mi"),
    ("t5", "softmax+cepr:5+mi"),
    pytest.param("gpt2", "mos", marks=pytest.mark.full),
]


@pytest.mark.parametrize("path", ["fused", pytest.param("dense", marks=pytest.mark.full)])
@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
@pytest.mark.parametrize(("kind", "method"), CASES)
def test_losses_and_weights(kind: str, method: str, engine: str, path: str, tmp_path: Path) -> None:
    alone = model_of(kind, method, path)
    want = train(alone, kind, 0, 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(one_of_two, (port, kind, method, path, engine, str(tmp_path)), nprocs=2)
    losses, weights = torch.load(tmp_path / "found.pt")
    torch.testing.assert_close(losses, want, atol=1e-5, rtol=1e-5)
    assert abs(want[0] - want[-1]) > 1e-3  # it learnt something
    for name, tensor in alone.state_dict().items():
        torch.testing.assert_close(weights[name], tensor, atol=1e-5, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
