"""Processes: a training runs as one, or as several that a launcher (torchrun, accelerate launch) started."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")

PATIENCE = timedelta(days=1)  # the others wait while one writes hidden states; who died is noticed by the launcher


def launched() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def deepspeed() -> bool:
    """Whether the launcher was told to use it."""
    return launched() > 1 and os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true"


def on_cpu(device: str) -> bool:
    """Whether to tell accelerate to train on the CPU. Several processes must be told so where there is nothing else: it
    would take each of them for a training of its own. DeepSpeed must not: it would take DDP, and say nothing."""
    return not deepspeed() and (device == "cpu" or (launched() > 1 and not torch.accelerator.is_available()))


def backend() -> str | None:
    """How processes talk; None: as accelerate thinks best, which knows nothing for DeepSpeed on CPUs."""
    return "gloo" if deepspeed() and not torch.accelerator.is_available() else None


def join(device: str) -> None:
    """Find the other processes, if there are any."""
    if launched() > 1 and not dist.is_initialized():
        from accelerate import PartialState

        if deepspeed() and device == "cpu" and torch.accelerator.is_available():
            raise ValueError("device cpu: DeepSpeed takes the GPUs. Leave device out, or use examples/launch/ddp.yaml.")
        PartialState(cpu=on_cpu(device), backend=backend(), timeout=PATIENCE)


def leave() -> None:
    """At the very end of a training that went well: nobody goes while another still listens."""
    wait()
    end_group()


def end_group() -> None:
    """Destroy the process group, on every way out of a process.

    Its threads (gloo's, the store's) end with the last reference to it, and wrapped models, which are cycles, have
    some. A thread that lives when the process exits aborts it, now and then ("terminate called without an active
    exception"), so nothing may be left of them.
    """
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        if "accelerate" in sys.modules:
            from accelerate.state import AcceleratorState

            AcceleratorState._reset_state(reset_partial_state=True)  # has the meshes of FSDP2
        gc.collect()


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if processes() > 1 else 0


def is_first() -> bool:
    """Whether this is the process that writes and speaks."""
    return rank() == 0


def wait() -> None:
    """Until everyone is here."""
    if processes() > 1:
        dist.barrier()


def total(value: Tensor) -> Tensor:
    """The sum over the processes."""
    if processes() > 1:
        value = value.detach().clone()
        dist.all_reduce(value)
    return value


def first_does(work: Callable[[], T]) -> T:
    """The first process does it, the others wait; all learn what came of it: the answer, or why it was refused."""
    if processes() == 1:
        return work()
    told: list[Any] = [None]
    problem: Exception | None = None
    if is_first():
        try:
            told = [(None, work())]
        except Exception as error:
            problem, told = error, [(str(error), None)]
    dist.broadcast_object_list(told)
    if problem is not None:
        raise problem
    refusal, answer = told[0]
    if refusal is not None:
        raise ValueError(refusal)
    return answer  # type: ignore[no-any-return]


def refuse_difference(here: dict[str, Any]) -> None:
    """All processes must have started with the same settings, model and data."""
    if processes() == 1:
        return
    found: list[Any] = [None] * processes()
    dist.all_gather_object(found, here)
    for number, there in enumerate(found):
        for part, values in there.items():
            for name, value in values.items():
                if value != found[0][part][name]:
                    raise ValueError(
                        f"process {number} started with another {part} {name} ({value!r}) than process 0 "
                        f"({found[0][part][name]!r}). Give all of them the same command and the same files."
                    )
