"""Guards against libraries that would silently bypass the head."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from unbottle.head import Head
from unbottle.hf.integrations import trl
from unbottle.hf.model_with_head import ModelWithHead

WRAPPER = "ModulesToSaveWrapper"  # of PEFT


class BypassedHeadError(RuntimeError):
    """Something computes the loss or the logits without the head."""


def guarded_forward(model: ModelWithHead, forward: object) -> object:
    """What `model.forward = forward` sets: `forward` if it still reaches the model's own, else an error.

    Wrappers that call what they wrap (accelerate's prepare and dispatch_model, torch.compile) are welcome. TRL's
    trainers replace the output layer: they get the head's answer to the same question. Liger and others that multiply
    by lm_head.weight themselves are refused: the head would get no gradient, and nobody would notice.
    """
    if trl.is_fused(forward):
        return trl.answer(model, forward)
    functions = list(_functions(forward))
    if liger := [function.__name__ for function in functions if str(function.__module__).startswith("liger_kernel")]:
        raise BypassedHeadError(
            f"Liger's {liger[0]} would replace the forward of this model and leave out its head. Keep Liger's "
            'other kernels: liger_kernel_config={"fused_linear_cross_entropy": False}.'
        )
    if not {*_wrapped(getattr(type(model), "forward", None))} & {*functions}:
        name = getattr(forward, "__qualname__", type(forward).__name__)
        raise BypassedHeadError(
            f"model.forward = {name} does not call the model's own forward, so the head would be left out. "
            "If it does call it, say so with functools.wraps(model.forward); to train without the head, detach it."
        )
    return forward


def _wrapped(function: object) -> Iterator[object]:
    """A function without its decorators, one by one."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _functions(forward: object) -> Iterator[FunctionType]:
    """Every function that a callable names as what it calls: bound, partial, wrapped, or kept in a closure."""
    waiting, seen = [forward], set()
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        if isinstance(here, MethodType):
            waiting.append(here.__func__)
        elif isinstance(here, functools.partial):
            waiting.append(here.func)
        elif isinstance(here, FunctionType):
            yield here
            waiting += [cell.cell_contents for cell in here.__closure__ or () if _filled(cell)]
        if wrapped := getattr(here, "__dict__", {}).get("__wrapped__"):
            waiting.append(wrapped)


def _filled(cell: CellType) -> bool:
    try:
        return callable(cell.cell_contents)
    except ValueError:  # an empty cell
        return False


def release_output(model: nn.Module, configs: object) -> None:
    """Make PEFT's modules_to_save=["head"] mean the head, and nothing else.

    PEFT compares the endings of names, so "head" would also copy, untie and train lm_head: an adapter as large as the
    vocabulary. When PEFT has wrapped a model it leaves its `configs` there; then lm_head is given back, unless named.
    """
    if not isinstance(configs, Mapping):
        return
    named = {ending for config in configs.values() for ending in getattr(config, "modules_to_save", None) or ()}
    for name, module in list(model.named_children()):
        if name == "head" or not name.endswith("head") or any(name.endswith(ending) for ending in named - {"head"}):
            continue
        adapter = getattr(module, "token_adapter", None)  # of a tied model with trainable tokens
        inner: Any = getattr(adapter, "base_layer", None)
        if type(module).__name__ == WRAPPER:
            setattr(model, name, module.original_module)
        elif type(inner).__name__ == WRAPPER:
            adapter.base_layer = inner.original_module  # type: ignore[union-attr]


def trained_head(head: nn.Module) -> Head:
    """The head itself, out of the wrapper that PEFT puts around modules_to_save."""
    if (copies := getattr(head, "modules_to_save", None)) is not None:
        active: str | list[str] = getattr(head, "active_adapter")  # noqa: B009  a property of PEFT's class
        head = copies[active if isinstance(active, str) else active[0]]
    assert isinstance(head, Head)
    return head


@contextmanager
def onloaded(module: nn.Module) -> Iterator[None]:
    """Inside the block a module that accelerate offloads (to the CPU or to disk) has its weights.

    The head reads rows of the output embeddings without calling their module, so accelerate's hook is run by hand.
    """
    hook = getattr(module, "_hf_hook", None)
    if hook is None:
        yield
        return
    hook.pre_forward(module)
    try:
        yield
    finally:
        hook.post_forward(module, torch.empty(0))


def head_is_active(model: ModelWithHead) -> bool:
    """Self-test: whether the loss of this model, called as it is called in training, reaches every head parameter."""
    parameters = [*trained_head(model.head).parameters()]
    if not parameters:
        return True
    trainable, training = [parameter.requires_grad for parameter in parameters], model.training
    ids = torch.arange(8, device=model.device)[None] % model.head.config.vocabulary
    model.eval()
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        with torch.enable_grad():
            loss = model(input_ids=ids, labels=ids, use_cache=False)["loss"]
        if not loss.requires_grad:
            return False
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        return all(gradient is not None for gradient in gradients)
    finally:
        for parameter, flag in zip(parameters, trainable, strict=True):
            parameter.requires_grad_(flag)
        model.train(training)
