"""Training with several processes: the process group, shared batches, and full tensors of what engines shard.

Files are the same however many processes wrote them, with DDP, FSDP2 and DeepSpeed ZeRO 2.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.data import BatchSampler, Dataset, Sampler

from unbottle.progress import processes as launched

T = TypeVar("T")
Row = dict[str, Tensor]
OptimizerState = dict[str, Any]  # as torch.optim.Optimizer.state_dict returns it

PATIENCE = timedelta(days=1)  # the others wait while one writes hidden states; the launcher notices crashes
BLANK = -1  # index of a row without labels
MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW


# -- process group


def deepspeed() -> bool:
    """Whether the launcher asks for DeepSpeed."""
    return launched() > 1 and os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true"


def on_cpu(use_cpu: bool) -> bool:
    """The value of TrainingArguments.use_cpu. Several processes need it where there are only CPUs: accelerate would
    take each of them for a training of its own. With DeepSpeed it would silently choose DDP."""
    return not deepspeed() and (use_cpu or (launched() > 1 and not torch.accelerator.is_available()))


def backend() -> str | None:
    """How processes communicate; None: accelerate's choice, which is missing for DeepSpeed on CPUs."""
    return "gloo" if deepspeed() and not torch.accelerator.is_available() else None


def join(use_cpu: bool) -> None:
    """Create the process group if a launcher started several processes."""
    if launched() > 1 and not dist.is_initialized():
        from accelerate import PartialState

        if deepspeed() and use_cpu and torch.accelerator.is_available():
            raise ValueError("use_cpu: DeepSpeed takes the GPUs. Leave use_cpu out, or use examples/launch/ddp.yaml.")
        PartialState(cpu=on_cpu(use_cpu), backend=backend(), timeout=PATIENCE)


def end_group() -> None:
    """Destroy the process group, on every way out of a process.

    Its threads (gloo's, the store's) end with the last reference to it, and wrapped models, which are cycles, have
    some. A thread that lives when the process exits aborts it, now and then ("terminate called without an active
    exception"), so nothing may be left of them.

    The last reference must be one of Python's: only those release the GIL while the group waits for its threads. A
    thread that frees a tensor needs the GIL, so a DDP reducer that went last would wait for ever.
    """
    if dist.is_available() and dist.is_initialized():
        group = dist.group.WORLD
        dist.destroy_process_group()
        if "accelerate" in sys.modules:
            from accelerate.state import AcceleratorState

            AcceleratorState._reset_state(reset_partial_state=True)  # has the meshes of FSDP2
        gc.collect()
        del group


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if world_size() > 1 else 0


def is_first() -> bool:
    """Whether this is the process that writes files and reports progress."""
    return rank() == 0


def barrier() -> None:
    """Wait for all processes."""
    if world_size() > 1:
        dist.barrier()


def all_reduce_sum(value: Tensor) -> Tensor:
    """The sum over all processes."""
    if world_size() > 1:
        value = value.detach().clone()
        dist.all_reduce(value)
    return value


def on_first_process(work: Callable[[], T]) -> T:
    """Call `work` in the first process. All processes get its result, or raise its error."""
    if world_size() == 1:
        return work()
    message: list[tuple[str | None, T | None] | None] = [None]
    problem: Exception | None = None
    if is_first():
        try:
            message = [(None, work())]
        except Exception as error:
            problem, message = error, [(str(error), None)]
    dist.broadcast_object_list(message)
    if problem is not None:
        raise problem
    assert message[0] is not None
    refusal, result = message[0]
    if refusal is not None:
        raise ValueError(refusal)
    return result  # type: ignore[return-value]  # None only where work returns it


def check_same_everywhere(values: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse processes that started with other arguments, models or data than the first."""
    if world_size() == 1:
        return
    gathered: list[Mapping[str, Mapping[str, object]]] = [{}] * world_size()
    dist.all_gather_object(gathered, values)
    for number, there in enumerate(gathered):
        for part, named in there.items():
            for name, value in named.items():
                if value != gathered[0][part][name]:
                    raise ValueError(
                        f"process {number} started with another {part} {name} ({value!r}) than process 0 "
                        f"({gathered[0][part][name]!r}). Give all of them the same command and the same files."
                    )


# -- batches


class WrappedRows(Dataset[Row]):
    """A dataset with as many rows as another. Subclasses change the rows."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)


class DistributedBatches(Sampler[list[int]]):
    """The part of each batch that one process reads. No row is read twice or left out.

    All processes have equally many batches: if the last has fewer rows than there are processes, some get BLANK.
    """

    def __init__(self, sampler: Any, batch_size: int, rank: int, processes: int) -> None:
        self.sampler, self.batch_size, self.rank, self.processes = sampler, batch_size, rank, processes

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for rows in BatchSampler(self.sampler, self.batch_size, drop_last=False):
            yield rows[self.rank :: self.processes] or [BLANK]


class RowsWithBlank(WrappedRows):
    """A dataset with one more row, BLANK, which has no labels."""

    def __getitem__(self, index: int) -> Row:
        row: Row = self.rows[0 if index == BLANK else index]
        return row if index != BLANK else {**row, "labels": torch.full_like(row["labels"], -100)}


# -- FSDP2: tensors in shards


def is_sharded(model: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def gather_sharded(value: Tensor) -> Tensor:
    """The full tensor. Every process must call this at the same time."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def gather_tensors(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Full tensors, one after the other, on the CPU of the first process. The others get an empty dict."""
    gathered = {}
    for name, value in tensors.items():
        full = gather_sharded(value.detach()) if isinstance(value, Tensor) else value
        if is_first():
            gathered[name] = full.cpu() if isinstance(full, Tensor) else full
    return gathered


def gather_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """What save_pretrained writes. Tied weights stay one tensor under several names."""
    state = model.state_dict()
    owners = {name: id(value) for name, value in model.named_parameters(remove_duplicate=False)}
    first = {owner: name for name, owner in reversed(owners.items())}
    ties = {name: first[owner] for name, owner in owners.items() if name in state}
    gathered = gather_tensors({name: value for name, value in state.items() if ties.get(name, name) == name})
    return {name: gathered[ties.get(name, name)] for name in state} if is_first() else {}


@torch.no_grad()
def copy_sharded(value: Tensor, target: Tensor) -> None:
    """Copy a full tensor into the memory of `target`, or its shard if `target` is sharded."""
    target.copy_(_sharded_like(value, target))


def gather_optimizer_state(optimizer: torch.optim.Optimizer) -> OptimizerState:
    """The state of an optimizer as one process alone would save it."""
    state: OptimizerState = optimizer.state_dict()
    return {**state, "state": {number: gather_tensors(values) for number, values in state["state"].items()}}


def shard_optimizer_state(optimizer: torch.optim.Optimizer, state: OptimizerState) -> OptimizerState:
    """The inverse of gather_optimizer_state: each tensor is sharded as its parameter is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    sharded = {}
    for number, parameter in zip(numbers, parameters, strict=True):
        if values := state["state"].get(number):
            sharded[number] = {
                name: _sharded_like(value, parameter)
                if isinstance(value, Tensor) and value.shape == parameter.shape
                else value
                for name, value in values.items()
            }
    return {**state, "state": sharded}


def _sharded_like(value: Tensor, target: Tensor) -> Tensor:
    if not isinstance(target, DTensor):
        return value
    return distribute_tensor(value.to(target.device), target.device_mesh, target.placements)


# -- DeepSpeed ZeRO 2: parts of one long vector per parameter group


def gather_zero_state(optimizer: Any) -> OptimizerState:
    """The state of AdamW as one process alone would save it. Every process must call this at the same time."""
    from deepspeed.utils import safe_get_full_optimizer_state

    zero = optimizer.optimizer
    _link(zero)
    state: OptimizerState = {"state": {}, "param_groups": []}
    first = 0
    for group, parameters, vector in zip(
        zero.optimizer.param_groups, zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True
    ):
        numbers = range(first, first + len(parameters))
        first += len(parameters)
        state["param_groups"].append({**group, "params": [*numbers]})
        for number, parameter in zip(numbers, parameters, strict=True):
            moments = {name: safe_get_full_optimizer_state(parameter, name) for name in MOMENTS}
            state["state"][number] = {"step": zero.optimizer.state[vector]["step"], **moments}
    return state


def load_zero_state(optimizer: Any, state: OptimizerState) -> None:
    """The inverse of gather_zero_state, after the weights were loaded, of which the vectors are copies."""
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
    """Tell parameters where their parts of the vectors are.

    DeepSpeed does so after the first step of the first group, when the other groups have no state yet.
    """
    zero._hp_optimizer_states_linked = False
    zero._lazy_init_hp_params_optimizer_state()
