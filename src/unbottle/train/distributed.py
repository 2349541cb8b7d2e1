"""Processes: a training runs as one, or as several that a launcher (torchrun, accelerate launch) started.

SharedBatches: several processes read together what one would read alone.

Whole tensors of what FSDP2 keeps in pieces, so that files are the same however many processes wrote them.

What DeepSpeed ZeRO 2 keeps in pieces of one long vector, whole and by number, as one process would save it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.data import BatchSampler, Dataset, Sampler

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


NOTHING = -1  # the place of a row that teaches nothing


class SharedBatches(Sampler[list[int]]):
    """This process's part of each batch. No row is read twice, none is left out, and all have equally many batches.

    A last batch may have fewer rows than there are processes: who gets none gets NOTHING, since all must take part in
    each step.
    """

    def __init__(self, sampler: Any, batch: int, rank: int, processes: int) -> None:
        self.sampler, self.batch_size, self.rank, self.processes = sampler, batch, rank, processes

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for rows in BatchSampler(self.sampler, self.batch_size, drop_last=False):
            yield rows[self.rank :: self.processes] or [NOTHING]


class SharedRows(Dataset):
    """A data set in which NOTHING has a row too: one without labels."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        if place != NOTHING:
            row: dict[str, Tensor] = self.rows[place]
            return row
        return {**self.rows[0], "labels": torch.full_like(self.rows[0]["labels"], -100)}


def whole(value: Tensor) -> Tensor:
    """All of a tensor. Every process must ask at once."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def is_split(model: Any) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def whole_tensors(tensors: dict[str, Any]) -> dict[str, Any]:
    """One after the other, on the CPU of the first process; the others get an empty dict."""
    found = {}
    for name, value in tensors.items():
        all_of_it = whole(value.detach()) if isinstance(value, Tensor) else value
        if is_first():
            found[name] = all_of_it.cpu() if isinstance(all_of_it, Tensor) else all_of_it
    return found


def whole_weights(model: Any) -> dict[str, Any]:
    """All that save_pretrained writes. Weights that are tied stay one tensor under several names."""
    state = model.state_dict()
    owners = {name: id(value) for name, value in model.named_parameters(remove_duplicate=False)}
    first = {owner: name for name, owner in reversed(owners.items())}
    ties = {name: first[owner] for name, owner in owners.items() if name in state}
    found = whole_tensors({name: value for name, value in state.items() if ties.get(name, name) == name})
    return {name: found[ties.get(name, name)] for name in state} if is_first() else {}


@torch.no_grad()
def put(place: Tensor, value: Tensor) -> None:
    """A whole tensor into the memory of `place`; where that is a piece, its piece."""
    place.copy_(_like(value, place))


def whole_state(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer as one process alone would save it."""
    state: dict[str, Any] = optimizer.state_dict()
    return {**state, "state": {number: whole_tensors(values) for number, values in state["state"].items()}}


def split_state(optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The other way round: each tensor is cut as its parameter is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    found = {}
    for number, parameter in zip(numbers, parameters, strict=True):
        values = state["state"].get(number, {})
        found[number] = {
            name: _like(value, parameter) if isinstance(value, Tensor) and value.shape == parameter.shape else value
            for name, value in values.items()
        }
    return {**state, "state": {number: values for number, values in found.items() if values}}


def _like(value: Tensor, place: Tensor) -> Tensor:
    if not isinstance(place, DTensor):
        return value
    return distribute_tensor(value.to(place.device), place.device_mesh, place.placements)


MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW


def zero_state(optimizer: Any) -> dict[str, Any]:
    """The state of AdamW. Every process must ask at once."""
    from deepspeed.utils import safe_get_full_optimizer_state

    _link(optimizer.optimizer)
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    number = 0
    for group, parameters, step in _groups(optimizer):
        numbers = range(number, number + len(parameters))
        number += len(parameters)
        found["param_groups"].append({**group, "params": [*numbers]})
        for each, parameter in zip(numbers, parameters, strict=True):
            moments = {name: safe_get_full_optimizer_state(parameter, name) for name in MOMENTS}
            found["state"][each] = {"step": step, **moments}
    return found


def set_zero_state(optimizer: Any, state: dict[str, Any]) -> None:
    """The other way round, after the weights were put into the model: the pieces are copies of them, too."""
    from deepspeed.utils import safe_set_full_optimizer_state

    zero = optimizer.optimizer
    for vector, stored, group in zip(
        zero.single_partition_of_fp32_groups, state["param_groups"], zero.optimizer.param_groups, strict=True
    ):
        step = next(state["state"][number]["step"] for number in stored["params"])
        zero.optimizer.state[vector] = {"step": step.clone(), **{name: torch.zeros_like(vector) for name in MOMENTS}}
        group.update({name: value for name, value in stored.items() if name != "params"})
    _link(zero)
    for stored, parameters in zip(state["param_groups"], zero.bit16_groups, strict=True):
        for number, parameter in zip(stored["params"], parameters, strict=True):
            for name in MOMENTS:
                value = state["state"][number][name].to(parameter.device)
                safe_set_full_optimizer_state(parameter, value, name)
    zero.refresh_fp32_params()


def _link(zero: Any) -> None:
    """Parameters learn where their parts of the vectors are.

    DeepSpeed does so after the first step of the first group, when the other groups have no state yet.
    """
    zero._hp_optimizer_states_linked = False
    zero._lazy_init_hp_params_optimizer_state()


def _groups(optimizer: Any) -> Iterator[tuple[dict[str, Any], list[Tensor], Tensor]]:
    """Each group of parameters: its settings, its parameters, and how many steps they took."""
    zero = optimizer.optimizer
    for group, parameters, vector in zip(
        zero.optimizer.param_groups, zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True
    ):
        settings = {name: value for name, value in group.items() if name != "params"}
        yield settings, parameters, zero.optimizer.state[vector]["step"]
