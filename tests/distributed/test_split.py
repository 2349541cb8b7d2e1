"""An output layer of which each process has a part is refused by name; what FSDP2 writes is whole."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from models import tiny, words
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from unbottle.hf import attach
from unbottle.train.distributed import (
    copy_sharded,
    gather_optimizer_state,
    gather_tensors,
    is_sharded,
    shard_optimizer_state,
)
from unbottle.train.trainer import check_engine


@pytest.fixture
def mesh(tmp_path):
    """One process that believes to be one of several."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def cut(module: nn.Module, name: str, mesh) -> None:
    """As a tensor-parallel plan does."""
    weight = module._parameters[name]
    module._parameters[name] = nn.Parameter(distribute_tensor(weight.detach(), mesh, [Shard(0)]))


SPLIT = r"output embeddings: split between processes \(Shard\(dim=0\)\).*without a tensor-parallel"


def test_attach_refuses_a_tensor_parallel_vocabulary(mesh) -> None:
    model = tiny("llama-untied")
    cut(model.lm_head, "weight", mesh)
    with pytest.raises(ValueError, match=SPLIT):
        attach(model, "softmax+c")


def test_forward_refuses_a_tensor_parallel_vocabulary(mesh) -> None:
    model = attach(tiny("llama-untied"), "softmax+c")
    cut(model.lm_head, "weight", mesh)
    with pytest.raises(ValueError, match=SPLIT):
        model(words())


def test_forward_refuses_a_head_that_is_split(mesh) -> None:
    model = attach(tiny("llama"), "softmax+c")
    cut(model.head.L["C"], "weight", mesh)
    with pytest.raises(ValueError, match=r"head\.L\.C\.weight: split between processes"):
        model(words())


def test_pieces_become_whole_and_pieces_again(mesh) -> None:
    """Weights and the state of AdamW: as one process would save them."""
    torch.manual_seed(0)
    plain = nn.Linear(3, 4)
    pieces = nn.Linear(3, 4)
    pieces.load_state_dict(plain.state_dict())
    for name in ("weight", "bias"):
        cut(pieces, name, mesh)
    assert is_sharded(pieces)
    assert not is_sharded(plain)
    states = []
    for module in (plain, pieces):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        states.append((optimizer, gather_optimizer_state(optimizer)))
    (_, wanted), (optimizer, found) = states
    assert found["param_groups"] == wanted["param_groups"]
    for number, values in wanted["state"].items():
        for name, value in values.items():
            assert torch.equal(found["state"][number][name], value), name
    again = torch.optim.AdamW(pieces.parameters(), lr=0.1)
    again.load_state_dict(shard_optimizer_state(again, found))
    assert again.state[pieces.weight]["exp_avg"].placements == (Shard(0),)
    weights = gather_tensors(dict(pieces.named_parameters()))
    assert torch.equal(weights["weight"], plain.weight)
    copy_sharded(torch.zeros(4, 3), pieces.weight)
    assert not gather_tensors(dict(pieces.named_parameters()))["weight"].any()


@pytest.mark.parametrize(("engine", "message"), [((1, None), "Set fsdp_version: 2"), ((None, 3), "ZeRO 3 takes")])
def test_engines_that_take_weights_away_are_refused(engine, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_engine(*engine)
    check_engine(2, None)
    check_engine(None, 2)
