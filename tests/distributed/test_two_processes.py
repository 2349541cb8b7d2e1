"""Two processes with half of the batch each end where one with the whole batch ends, in a loop of one's own."""

import socket
from pathlib import Path

import pytest
import torch
from two_processes import model_of, one_of_two, train

CPR, CEPR, MOS = ("gpt2", "softmax+cpr:5,20+mi"), ("t5", "softmax+cepr:5+mi"), ("gpt2", "mos")
ALL = [(*case, engine, path) for case in (CPR, CEPR, MOS) for engine in ("ddp", "fsdp2") for path in ("fused", "dense")]


@pytest.mark.full  # with the Trainer: test_training.py
@pytest.mark.parametrize(("kind", "method", "engine", "path"), ALL)
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
