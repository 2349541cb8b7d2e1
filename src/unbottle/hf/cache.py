"""The head's state as one more layer of the model's cache, so that transformers' own decoding loops update it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from unbottle.head import Past


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
            raise ValueError(f"a static cache of {self.size} positions can not take {len(self)} + {count}.")
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


class HeadState(CacheLayerMixin):
    """A cache layer that holds a `Past` instead of keys and values."""

    is_croppable = True
    is_sliding = False
    supports_early_init = False

    def __init__(self, size: int | None = None) -> None:
        super().__init__()
        self.size = size
        self.is_compileable = size is not None
        self.past = self._fresh()

    def _fresh(self) -> Past:
        return Past() if self.size is None else StaticPast(self.size)

    @property
    def max_batch_size(self) -> int | None:
        return self.past.batch_size

    @property
    def max_cache_len(self) -> int | None:
        return self.size

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        raise NotImplementedError("the head's state has no keys and values.")

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("the head's state has no keys and values.")

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return (len(self.past) + query_length if self.size is None else self.size), 0

    def get_seq_length(self) -> int:
        return len(self.past)

    def get_max_length(self) -> int:
        return -1 if self.size is None else self.size

    get_max_cache_shape = get_max_length  # its name before transformers 5.15

    def offload(self) -> None:
        """Small, and needed at once: stays where it is."""

    def prefetch(self) -> None:
        """See `offload`."""

    def reset(self) -> None:
        self.past = self._fresh()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.past.reorder(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.past.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        self.past.select(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """A negative number forgets that many positions; a positive one (transformers < 5.15) keeps as many."""
        length = tokens_to_remove if tokens_to_remove > 0 else len(self.past) + tokens_to_remove
        self.past.crop(max(0, min(length, len(self.past))))


def longest(layer: Any) -> int:
    """How many positions a static layer has room for."""
    return int(layer.get_max_length() if hasattr(layer, "get_max_length") else layer.get_max_cache_shape())


def own_layers(cache: Cache) -> list[Any]:
    """The layers of the decoder's own past, where the head's state lives."""
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    return own.layers


def find_state(cache: Cache) -> HeadState | None:
    return next((layer for layer in own_layers(cache) if isinstance(layer, HeadState)), None)


def add_state(cache: Cache, size: int | None = None) -> HeadState:
    """The head's state in this cache, appended if it was not there."""
    state = find_state(cache)
    if state is None:
        state = HeadState(size)
        state.is_sliding = all(getattr(layer, "is_sliding", False) for layer in own_layers(cache))
        own_layers(cache).append(state)
    return state


def refuse_foreign(cache: Cache | None) -> None:
    """A cache that was filled without the head would give wrong words, silently."""
    if cache is None or torch.compiler.is_compiling():
        return
    if not isinstance(cache, (Cache, EncoderDecoderCache)):
        raise ValueError(f"past_key_values is a {type(cache).__name__}: expected a transformers Cache.")
    seen, state = int(cache.get_seq_length()), find_state(cache)
    remembered = 0 if state is None else state.get_seq_length()
    if seen != remembered:
        raise ValueError(
            f"past_key_values holds {seen} positions, of which the head has seen {remembered}: it was filled by "
            "another model or without the head. Start from an empty cache."
        )
