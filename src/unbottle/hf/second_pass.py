"""The second pass of wbwR: the model reads each candidate after each context, reusing its first pass."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from unbottle.head import Past
from unbottle.hf.cache import WithHeadState
from unbottle.hf.head_inputs import layers_of
from unbottle.hf.model_with_head import ModelWithHead
from unbottle.ops import Words


@dataclass(frozen=True)
class SecondPass:
    """Hidden states of candidates that are appended, one at a time, to the context of each position.

    After the context of position t comes f_R, at the place of the next word, then the candidate. Candidates share one
    place and do not see each other, so their order means nothing; the context's keys and values come from the first
    pass. It computes all positions it is given at once: the partition takes them block by block.
    """

    model: ModelWithHead
    cache: Cache
    past: Past  # the head's own, of the same positions: it knows which are padding

    def __call__(self, words: Words, f_R: Tensor, positions: Tensor) -> Tensor:
        """Layers of the candidates, B T S L D."""
        candidates = words.ids
        batch, count, k = candidates.shape
        embedded = self.model.get_input_embeddings()(candidates)
        appended = torch.cat([f_R[:, :, None].to(embedded.dtype), embedded], dim=2)  # B T 1+k D
        inputs = {
            "inputs_embeds": appended.flatten(1, 2),
            "attention_mask": self._attention(batch, positions, 1 + k, embedded.dtype),
            "position_ids": self._places(positions, k),
            "past_key_values": self._fresh_cache(),
            "use_cache": True,
        }
        layers = layers_of(self.model, inputs)
        return layers.view(batch, count, 1 + k, *layers.shape[2:])[:, :, 1:]

    def _attention(self, batch: int, positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
        """Additive mask: each appended token sees the context of its position, its f_R and itself."""
        columns = torch.arange(len(self.past), device=positions.device)
        context = (columns <= positions[:, None]).repeat_interleave(width, dim=0)  # T*(1+k) N
        context = context & self.past.tensors["mask"][:, None]
        own = torch.eye(width, dtype=torch.bool, device=positions.device)
        own[:, 0] = True
        among = torch.block_diag(*[own] * len(positions)).bool().expand(batch, -1, -1)
        seen = torch.cat([context, among], dim=-1)[:, None]
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)

    def _places(self, positions: Tensor, k: int) -> Tensor:
        """Position ids: f_R where the next word would stand, all candidates one further."""
        place = (self.past.tensors["mask"].long().cumsum(1) - 1).clamp(min=0)[:, positions]  # B T
        offsets = torch.tensor([1] + [2] * k, device=positions.device)
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return (place[..., None] + offsets).clamp(max=None if limit is None else limit - 1).flatten(1)

    def _fresh_cache(self) -> Cache:
        """The context's keys and values, to be appended to without changing them."""
        fresh = DynamicCache()
        fresh.layers = [copy.copy(layer) for layer in self.cache.layers]
        return fresh


def refuse_second_pass(model: ModelWithHead, cache: Cache | None) -> None:
    """wbwR needs a model that takes embeddings, masks and position ids freely, and its whole past."""
    why = None
    if model.config.is_encoder_decoder:
        why = "encoder-decoder models place their tokens themselves, so candidates cannot share a place"
    elif not isinstance(cache, DynamicCache) or not cache.layers:
        why = "the first pass left no cache of keys and values (gradient checkpointing and static caches do that)"
    elif any(
        (layer.base if isinstance(layer, WithHeadState) else type(layer)) is not DynamicLayer for layer in cache.layers
    ):
        why = "a sliding window forgets part of the context"
    if why:
        raise ValueError(f"wbwr cannot run on this {model.base_class.__name__}: {why}.")
