"""The head's state rides with the last layer of the model's cache: transformers' own decoding loops update it."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    EncoderDecoderCache,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from unbottle.head import Past

CROP_KEEPS = "max_length" in inspect.signature(DynamicLayer.crop).parameters  # transformers < 5.15


class StaticPast(Past):
    """A past of fixed size, written in place: its shapes never change, so decoding compiles once."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.length = _fixed(torch.zeros((), dtype=torch.long))
        self.at = torch.zeros(0, dtype=torch.long)

    def __len__(self) -> int:
        return int(self.length)

    def advance(self, count: int, device: torch.device) -> Tensor:
        if not torch.compiler.is_compiling() and len(self) + count > self.size:
            raise ValueError(f"a static cache of {self.size} positions cannot take {len(self)} + {count}.")
        if self.length.device != device:
            self.length = _fixed(self.length.to(device))
        self.at = torch.arange(count, device=device) + self.length
        self.length.add_(count)
        return self.at

    def push(self, **new: Tensor) -> dict[str, Tensor]:
        for name, tensor in new.items():
            if name not in self.tensors:
                self.tensors[name] = _fixed(tensor.new_zeros((tensor.shape[0], self.size, *tensor.shape[2:])))
            self.tensors[name].index_copy_(1, self.at, tensor)
        return {name: self.tensors[name] for name in new}

    known_length = None

    def recent(self, name: str, count: int) -> Tensor:
        tensor = self.tensors[name]
        rows = self.length - count + torch.arange(count, device=tensor.device)
        missing = (rows < 0).view(-1, *[1] * (tensor.ndim - 2))
        return tensor.index_select(1, rows.clamp(min=0)).masked_fill(missing, 0)

    def latest(self, name: str) -> Tensor:
        return self.tensors[name].index_select(1, (self.length - 1).clamp(min=0)[None])  # zeros, where all is cropped

    def crop(self, length: int) -> None:
        for tensor in self.tensors.values():
            tensor[:, length:] = 0
        self.length.fill_(length)
        if not length:
            self.source = {}


def _fixed(tensor: Tensor) -> Tensor:
    """Memory that stays where it is: a compiled graph that writes into it may still be a CUDA graph."""
    if not torch.compiler.is_compiling():
        torch._dynamo.mark_static_address(tensor)
    return tensor


class WithHeadState:
    """A layer of the cache that keeps the head's state beside its keys and values: what is done to these is done to it.

    The last layer of a cache becomes one, so that a cache has as many layers as its model.
    """

    past: Past
    base: type[CacheLayerMixin]  # what the layer was

    @property
    def is_compileable(self) -> bool:
        """As the layer was, whatever the head keeps: masks of attention depend on it."""
        compileable: bool = self.base.is_compileable
        return compileable

    def reset(self) -> None:
        super().reset()  # type: ignore[misc]
        self.past = StaticPast(self.past.size) if isinstance(self.past, StaticPast) else Past()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)  # type: ignore[misc]
        self.past.reorder(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)  # type: ignore[misc]
        self.past.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)  # type: ignore[misc]
        self.past.select(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """A negative number forgets that many positions; before transformers 5.15, others say how many to keep."""
        super().crop(tokens_to_remove)  # type: ignore[misc]
        keeps = tokens_to_remove > 0 or (tokens_to_remove == 0 and CROP_KEEPS)
        length = tokens_to_remove if keeps else len(self.past) + tokens_to_remove
        self.past.crop(max(0, min(length, len(self.past))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Its class has no name to be found by: a copy makes it again."""
        return _empty, (self.base,), self.__dict__


@functools.cache
def _with_state(base: type[CacheLayerMixin]) -> type[Any]:
    """Of no layer type: transformers makes the layers of new caches from the last class of a type."""
    return type(base.__name__, (WithHeadState, base), {"base": base, "_layer_type": None})


def _empty(base: type[CacheLayerMixin]) -> Any:
    return object.__new__(_with_state(base))


def longest(layer: Any) -> int:
    """How many positions a static layer has room for."""
    return int(layer.get_max_length() if hasattr(layer, "get_max_length") else layer.get_max_cache_shape())


def _room(layers: list[Any]) -> int | None:
    """How many positions fit into static layers; None if they grow, or see a window only and take any number."""
    static = [layer for layer in layers if isinstance(layer, StaticLayer)]
    sizes = [longest(layer) for layer in static if not isinstance(layer, StaticSlidingWindowLayer)]
    return max(sizes) if sizes else None


def own_layers(cache: Cache) -> list[Any]:
    """The layers of the decoder's own past, where the head's state lives."""
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    return own.layers


def find_past(cache: Cache) -> Past | None:
    """The head's state in this cache, if it has been there."""
    return next((layer.past for layer in own_layers(cache)[-1:] if isinstance(layer, WithHeadState)), None)


def add_past(cache: Cache, size: int | None = None) -> Past:
    """The head's state in this cache, added to the last layer if it was not there: of a fixed `size`, or growing.

    Where no size is given, a static cache has its own. A compiled graph cannot add the state: a cache that is made or
    first filled inside of one does not keep it, and is refused by the next call that is not compiled.
    """
    layers, past = own_layers(cache), find_past(cache)
    if past is None and size is None:
        size = _room(layers)
    if past is None or (isinstance(past, StaticPast) and size is not None and past.size < size):
        past = Past() if size is None else StaticPast(size)
        if torch.compiler.is_compiling():
            return past
        if not isinstance(layers[-1], WithHeadState):
            plain, layers[-1] = layers[-1], _empty(type(layers[-1]))
            layers[-1].__dict__ = plain.__dict__
        layers[-1].past = past
    return past


def refuse_foreign(cache: Cache | None) -> None:
    """A cache that was filled without the head would give wrong words, silently."""
    if cache is None or torch.compiler.is_compiling():
        return
    if not isinstance(cache, (Cache, EncoderDecoderCache)):
        raise ValueError(f"past_key_values is a {type(cache).__name__}: expected a transformers Cache.")
    seen, past = int(cache.get_seq_length()), find_past(cache)
    remembered = 0 if past is None else len(past)
    if seen != remembered:
        raise ValueError(
            f"past_key_values holds {seen} positions, of which the head has seen {remembered}: it was filled by "
            "another model or without the head. Start from an empty cache."
        )
