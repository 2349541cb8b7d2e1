"""Continuous batching of transformers: `generate_batch`, and `transformers serve --continuous-batching`.

transformers keeps the requests in pages of its own. Here these pages get a few layers more, which no attention reads:
what the head remembers of a token lies there, so that it is counted, shared, copied and given back with attention's.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers.generation.continuous_batching import continuous_api
from transformers.generation.continuous_batching.cache import group_layers_by_attn_type
from transformers.generation.continuous_batching.utils import find_head_dim, find_num_key_value_heads
from transformers.modeling_outputs import CausalLMOutputWithPast

from unbottle.head import Knobs
from unbottle.hf.head_inputs import layers_of
from unbottle.hf.knobs import current_knobs
from unbottle.hf.model_with_head import ModelWithHead
from unbottle.hf.paged_state import Batch, Layout, PagedHead

FULL = "full_attention"
STATE = "unbottle_state"  # the attribute of a paged cache that says where the head's state is


@dataclass(frozen=True)
class PagedState:
    """Where the head's state is in a paged cache."""

    allocator: Any  # of the layers with full attention
    memory: Tensor  # pages x tokens of a page x columns: a view of the cache's own memory
    own_types: int  # kinds of attention that the model has without the head's layers
    knobs: Knobs

    def batch(self, step: dict[str, Any]) -> Batch:
        """The requests of a step, from the arguments that transformers passes to a model."""
        index, stride = self.allocator.index, self.allocator.block_physical_stride
        size = self.allocator.tokens_per_page
        starts, ends = step["cu_seq_lens_q"].tolist(), step["cu_seq_lens_k"][FULL].tolist()
        lengths = [end - start for start, end in pairwise(ends)]
        most = max(1, -(-max(lengths) // size))
        if step.get("block_table") is not None:
            blocks = step["block_table"][index][:, :most].long().clamp(min=0) * size // stride
            last = torch.tensor(lengths, device=blocks.device) - 1
            slots = blocks.gather(1, (last // size).clamp(min=0)[:, None])[:, 0] * size + last % size
            return Batch(starts, lengths, blocks, slots)
        write, read = step["write_index"][index], step["read_index"][index]
        places = read if read.numel() else write
        first = torch.tensor(ends[:-1], device=places.device)[:, None] + size * torch.arange(most, device=places.device)
        blocks = places[first.clamp(max=len(places) - 1)] // stride  # past the end of a text: never read
        return Batch(starts, lengths, blocks, write // stride * size + write % stride)


class Manager(continuous_api.ContinuousBatchingManager):
    """The manager of transformers for a model with a head: its cache has room for the head's state."""

    knobs: Knobs  # of all its requests

    def _create_batch_processor(self) -> Any:
        model: Any = self.model
        layout = Layout.of(model.head, model.dtype)
        config, extra, own_types = _with_layers(model.config.get_text_config(), layout)
        described: Any = SimpleNamespace(config=config, device=model.device, dtype=model.dtype)
        described._supports_logits_to_keep = model._supports_logits_to_keep
        self.model = described  # as its cache is told about it: with the layers of the head's state
        try:
            processor = super()._create_batch_processor()
        finally:
            self.model = model
        cache = processor.cache
        allocator = cache.cache_allocators[FULL]
        pages = allocator._copy_view.view(layout.dtype)
        own = pages.shape[1] * extra // allocator.pages_per_block
        memory = pages[:, -own:].unflatten(1, (allocator.tokens_per_page, -1))
        setattr(cache, STATE, PagedState(allocator, memory, own_types, self.knobs))
        return processor


def _with_layers(config: Any, layout: Layout) -> tuple[Any, int, int]:
    """A config with as many layers more as the head's state needs; their number; how many kinds there were."""
    groups = group_layers_by_attn_type(config)
    kinds = {layer: kind for kind, layers in groups.items() for layer in layers}
    extra = -(-layout.columns // (2 * find_num_key_value_heads(config) * find_head_dim(config)))
    config = copy.deepcopy(config)
    config.__dict__["layer_types"] = [kinds[layer] for layer in sorted(kinds)] + [FULL] * extra
    config.__dict__[config.attribute_map.get("num_hidden_layers", "num_hidden_layers")] = len(kinds) + extra
    return config, extra, len(groups)


def manager_with_state(model: ModelWithHead, manager: Any) -> Any:
    """A fresh manager of transformers, made one for a model with a head."""
    if type(manager) is Manager:
        return manager
    method = model.head.config.method
    if model.config.is_encoder_decoder or method.wbwr:
        why = "it runs the model a second time" if method.wbwr else "an encoder has no place in its pages"
        raise NotImplementedError(f"continuous batching with method {str(method)!r}: {why}. Use generate().")
    settings = manager.continuous_batching_config
    settings.use_cuda_graph = (False, False)  # lengths of texts are read back to the host at each step
    settings.varlen_compile_config = settings.decode_compile_config = None
    manager.__class__, manager.knobs = Manager, current_knobs(model)
    return manager


def paged_step(model: ModelWithHead, input_ids: Tensor, step: dict[str, Any]) -> CausalLMOutputWithPast:
    """One step: logits of the rows that transformers asks for. `step` has the other arguments that it passes."""
    state: PagedState | None = getattr(step["cache"], STATE, None)
    if state is None:
        raise ValueError("this paged cache has no room for the head's state: use the model's init_continuous_batching.")
    wanted = step.pop("logits_to_keep")
    if state.own_types == 1 and isinstance(step.get("attention_mask"), dict):
        kind = next(iter(group_layers_by_attn_type(model.config.get_text_config())))
        step["attention_mask"] = step["attention_mask"][kind]
    layers = layers_of(model, {"input_ids": input_ids, **step})[0]
    batch, paged = state.batch(step), PagedHead(model.head, layers.dtype)
    embedding, real = model._embedding(), batch.num_tokens
    q = paged.read(layers[:real], input_ids[0, :real], batch, state.memory)
    rows = wanted.long().tolist()
    logits: Any = paged.scores(q[rows], rows, embedding, batch, state.memory, lambda request: state.knobs)
    return CausalLMOutputWithPast(logits=logits[None])
