"""What each of two processes does. A file of its own, because the processes have to import it."""

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import unbottle

STEPS, BATCH, LENGTH, VOCABULARY = 5, 4, 12, 61


def model_of(kind: str, method: str, path: str):
    torch.manual_seed(0)
    if kind == "gpt2":
        no_dropout = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
        size = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 32}
        plain = GPT2LMHeadModel(GPT2Config(**size, **no_dropout, bos_token_id=0, eos_token_id=0))
    else:
        size = {"vocab_size": VOCABULARY, "d_model": 16, "d_ff": 32, "num_layers": 3, "num_heads": 2, "d_kv": 8}
        plain = T5ForConditionalGeneration(T5Config(**size, dropout_rate=0, decoder_start_token_id=0))
    model = unbottle.attach(plain, method)
    model.head.path = path
    return model.train()


def batches(kind: str):
    """The same for everyone; the last rows of the first batch have no labels at some positions."""
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        ids = torch.randint(2, VOCABULARY, (BATCH, LENGTH), generator=generator)
        labels = ids.clone()
        if step == 0:
            labels[-2:, -5:] = -100
        yield {"input_ids": ids, "labels": labels if kind == "gpt2" else labels.flip(0)}


def train(model: nn.Module, kind: str, rank: int, world: int) -> list[float]:
    """Losses of each step: sums over all labels of all processes, divided by their number."""
    optimiser, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for batch in batches(kind):
        labels = batch["labels"][:, 1:] if kind == "gpt2" else batch["labels"]
        count = int((labels != -100).sum())
        mine = {name: tensor.chunk(world)[rank] for name, tensor in batch.items()}
        optimiser.zero_grad()
        loss = model(**mine, num_items_in_batch=count).loss
        (loss * world).backward()  # gradients are averaged over processes, the loss is a sum over them
        optimiser.step()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
        losses.append(total.item())
    return losses


def one_of_two(rank: int, port: int, kind: str, method: str, path: str, engine: str, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(seconds=60))
    model = model_of(kind, method, path)
    if engine == "ddp":
        wrapped = DistributedDataParallel(model)
    else:
        blocks = model.transformer.h if kind == "gpt2" else [*model.encoder.block, *model.decoder.block]
        for block in blocks:
            fully_shard(block)
        wrapped = fully_shard(model)
    losses = train(wrapped, kind, rank, 2)
    whole = {n: p.full_tensor() if isinstance(p, DTensor) else p for n, p in model.state_dict().items()}
    if rank == 0:
        torch.save((losses, {name: tensor.clone() for name, tensor in whole.items()}), Path(folder) / "found.pt")
    dist.barrier()  # nobody leaves while the other still listens
    dist.destroy_process_group()
