"""Training under FSDP1 in processes that are started by spawn, which import this file by its name."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from models import shaken, tiny, words
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from unbottle.head import Head
from unbottle.head.multi_input import MultiInput
from unbottle.head.projection import Projection
from unbottle.hf import attach


def attached(method: str, name: str = "llama-untied"):
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


def trained(model, ids) -> list[float]:
    """Losses of three steps."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


FSDP1_CASES = [
    ("softmax+cpr:5,20+mi", True, "model"),
    ("softmax+cpr:5,20+mi", False, "head"),
    ("softmax+cpr:5,20+mi", True, "parts of the head"),
    ("mos+mi", True, "head"),
    ("mos+mi", False, "model"),
]  # FSDP takes no scalars, which PG, PS and CopyNet have
WRAPPED = {"model": set(), "head": {Head}, "parts of the head": {Projection, MultiInput}}


def one_of_two(rank: int, folder: str) -> None:
    """Both processes train on the same batch, so the losses are those of one process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    losses = []
    for method, original, wrapped in FSDP1_CASES:
        model, ids = attached(method).train(), words()
        want = trained(copy.deepcopy(model), ids)
        policy = ModuleWrapPolicy(WRAPPED[wrapped]) if WRAPPED[wrapped] else None
        options = {"use_orig_params": original, "device_id": torch.device("cpu")}
        losses.append((want, trained(FullyShardedDataParallel(model, auto_wrap_policy=policy, **options), ids)))
    torch.save(losses, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
