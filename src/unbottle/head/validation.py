"""Validation of the inputs of a head: errors name the value and what is allowed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unbottle.head.cache import Past
from unbottle.head.config import HeadConfig
from unbottle.head.embedding import Embedding
from unbottle.head.inputs import Source, States
from unbottle.ops import is_accelerator


def check_embedding(config: HeadConfig, embedding: Embedding, layers: Tensor) -> None:
    if embedding.weight.is_meta and not layers.is_meta:
        raise ValueError("word embeddings are on the meta device, without values. Load or move them to a device.")
    if embedding.weight.ndim != 2:
        raise ValueError(f"word embeddings have shape {tuple(embedding.weight.shape)}, expected (words, dimensions).")
    if not torch.compiler.is_compiling():
        check_whole("output embeddings", embedding.weight)
    vocabulary, size = embedding.vocabulary, embedding.weight.shape[1]
    if size != config.hidden_size:
        raise ValueError(f"word embeddings have {size} dimensions, this head was built for {config.hidden_size}.")
    if embedding.bias is not None and embedding.bias.shape != (vocabulary,):
        raise ValueError(f"bias has shape {tuple(embedding.bias.shape)}, expected ({vocabulary},): one per word.")
    config.method.check(encoder_decoder=config.encoder_decoder, vocabulary=vocabulary)


def scans(values: Tensor, *, strict: bool) -> bool:
    """Whether to look at ids and masks. The host of an accelerator would have to wait: only in strict mode."""
    return not _skip(values) and (strict or not is_accelerator(values.device))


def check_states(config: HeadConfig, states: States, past: Past | None, remembered: list[str]) -> None:
    expected = (config.block[0], config.hidden_size)
    if states.layers.ndim != 4 or tuple(states.layers.shape[2:]) != expected:
        raise ValueError(
            f"layers have shape {tuple(states.layers.shape)}: expected (batch, positions, {config.block[0]}, "
            f"{config.hidden_size}) for {config.method}."
        )
    batch, positions = states.layers.shape[:2]
    if not positions:
        raise ValueError(f"layers have shape {tuple(states.layers.shape)}: there is no position to predict at.")
    for name in ("ids", "mask", "readable", "documents"):
        _check_shape(name, getattr(states, name), (batch, positions), flags=name in ("mask", "readable"))
    if past is not None and past.batch_size not in (None, batch):
        raise ValueError(f"a batch of {batch} rows goes on from a past of {past.batch_size} rows.")
    if past is not None and past.tensors and set(past.tensors) != set(remembered):
        raise ValueError(f"this past remembers {sorted(past.tensors)}; a head of {config.method} needs {remembered}.")


def scan_states(states: States, vocabulary: int) -> None:
    """What looks at the values of ids and masks."""
    mask, readable = states.mask, states.mask if states.readable is None else states.readable
    if mask is not None and readable is not None and mask is not readable:
        _refuse_readable_padding(readable & ~mask)
    check_ids("ids", states.ids, readable, vocabulary)


def check_source(config: HeadConfig, source: Source | None, batch: int) -> None:
    if source is None:
        raise ValueError(f"method {str(config.method)!r} reads the encoder input: give a source (ids, mask, states).")
    size = config.source_size or config.hidden_size
    if source.states.ndim != 3 or source.states.shape[0] != batch or source.states.shape[2] != size:
        raise ValueError(f"source states have shape {tuple(source.states.shape)}: expected ({batch}, tokens, {size}).")
    for name in ("ids", "mask"):
        _check_shape(f"source {name}", getattr(source, name), tuple(source.states.shape[:2]), flags=name == "mask")


def check_dtype(name: str, values: Tensor, own: Tensor | None) -> None:
    """Hidden states are what the head's own parameters are; autocast takes care of that by itself."""
    if not values.is_floating_point():
        raise ValueError(f"{name} are {values.dtype}, expected floating point.")
    if own is None or not own.is_floating_point() or own.dtype == values.dtype:
        return
    if not torch.is_autocast_enabled(values.device.type):
        raise ValueError(f"{name} are {values.dtype} and this head is {own.dtype}. Cast one: head.to({values.dtype}).")


def check_parameters(head: nn.Module) -> None:
    """No weight of the head is split. There is nothing to look for unless several processes work together."""
    if torch.compiler.is_compiling() or not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    for name, weight in head.named_parameters():
        check_whole(f"head.{name}", weight)


def check_whole(name: str, weight: Tensor) -> None:
    """The head reads any row of W, and its own weights: a process that holds a part of them (a DTensor) is refused."""
    if (placements := getattr(weight, "placements", None)) is not None:
        raise ValueError(
            f"{name}: split between processes ({', '.join(map(repr, placements))}), and the head reads it as a whole. "
            "Load the model without a tensor-parallel output layer (tp_plan); let FSDP wrap the model or the whole "
            "head, which gathers it for each call: docs/distributed.md."
        )


def check_numbers(name: str, values: Tensor) -> None:
    """Strict mode only. A logit of -inf is a word that the model excludes, and allowed."""
    if not _skip(values) and not bool((values < torch.inf).all()):
        where = (~(values < torch.inf)).nonzero()[0].tolist()
        raise ValueError(f"{name} is {values[tuple(where)].item()} at {where}; strict mode refuses NaN and infinity.")


def check_finite(name: str, values: Tensor) -> None:
    """Strict mode only: a pass over the values."""
    if not _skip(values) and not bool(values.isfinite().all()):
        where = (~values.isfinite()).nonzero()[0].tolist()
        raise ValueError(f"{name} is {values[tuple(where)].item()} at {where}; strict mode allows finite values only.")


def _refuse_readable_padding(wrong: Tensor) -> None:
    if bool(wrong.any()):
        raise ValueError(
            f"readable is True at {wrong.nonzero()[0].tolist()}, where mask is False: padding has no word to read."
        )


def _check_shape(name: str, tensor: Tensor | None, shape: tuple[int, ...], *, flags: bool) -> None:
    if tensor is None:
        return
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}.")
    integers = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool
    if not (tensor.dtype == torch.bool if flags else integers):
        raise ValueError(f"{name} is {tensor.dtype}, expected {'torch.bool' if flags else 'whole numbers'}.")


def check_ids(name: str, ids: Tensor, readable: Tensor | None, vocabulary: int) -> None:
    """Words of the vocabulary, wherever they are readable."""
    if not ids.numel():
        return
    if (extreme := _outside(ids, vocabulary)) is None:
        return
    if readable is not None:
        extreme = _outside(ids.where(readable, 0), vocabulary)
    if extreme is not None:
        raise ValueError(
            f"{name} contain {extreme}: the vocabulary has words 0 to {vocabulary - 1}; mask what is padding."
        )


def _outside(ids: Tensor, vocabulary: int) -> int | None:
    """The lowest or the highest id, if it is no word of the vocabulary."""
    return next((extreme for extreme in map(int, ids.aminmax()) if not 0 <= extreme < vocabulary), None)


def _skip(values: Tensor) -> bool:
    """Looking at values would break a compiled graph, and the meta device has none."""
    return torch.compiler.is_compiling() or values.is_meta
