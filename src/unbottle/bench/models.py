"""The output layer alone: a model whose layers below it return hidden states that are there already.

Models: one base model with random weights, and every variant of it on the same weights.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions

from unbottle.bench.cases import PLAIN, Shape, Variant
from unbottle.hf import attach

NUM_LAYERS = 4  # hidden states to choose from; the Mi of the paper reads three


class Stub(nn.Module):
    """Stands where a backbone, encoder or decoder stood. Its output may be a leaf of the gradient."""

    def __init__(self, size: int, dtype: torch.dtype, config: Any, kind: Any) -> None:
        super().__init__()
        self.size, self.dtype, self.config, self.kind = size, dtype, config, kind
        self.embed_tokens = nn.Module()
        self.layers: tuple[Tensor, ...] = ()

    def fill(self, batch: int, length: int, *, require_grad: bool) -> None:
        """Hidden states as large as those behind a final norm."""
        generator = torch.Generator().manual_seed(batch * length)
        states = [torch.randn(batch, length, self.size, generator=generator) for _ in range(NUM_LAYERS)]
        self.layers = tuple(state.to(self.dtype).requires_grad_(require_grad) for state in states)

    def forget(self) -> None:
        for layer in self.layers:
            layer.grad = None

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.kind(last_hidden_state=self.layers[-1], hidden_states=self.layers)


def without_backbone(model: Any) -> Any:
    """Put stubs in place of the layers; what the class of the model does behind them stays."""
    weight = model.get_output_embeddings().weight
    size, dtype = weight.shape[1], weight.dtype
    if not model.config.is_encoder_decoder:
        stub = Stub(size, dtype, model.base_model.config, BaseModelOutputWithPastAndCrossAttentions)
        stub.embed_tokens = model.get_input_embeddings()  # a model asks for it before it tells its output embeddings
        setattr(model, model.base_model_prefix, stub)
        return model
    owner = next(part for part in (model, model.base_model) if hasattr(part, "encoder"))
    owner.encoder = Stub(size, dtype, owner.encoder.config, BaseModelOutput)
    owner.decoder = Stub(size, dtype, owner.decoder.config, BaseModelOutputWithPastAndCrossAttentions)
    return model


def fill(model: Any, *, batch: int, length: int, source_length: int, require_grad: bool) -> list[Stub]:
    """Give all stubs of a model their hidden states."""
    stubs = [part for part in model.modules() if isinstance(part, Stub)]
    for stub in stubs:
        words = source_length if stub.kind is BaseModelOutput else length  # an encoder's output, or a decoder's
        stub.fill(batch, words, require_grad=require_grad)
    return stubs


class Models:
    """The variants of one shape. They share all weights but those of their heads."""

    def __init__(self, shape: Shape, *, positions: int, dtype: str = "float32", seed: int = 0) -> None:
        torch.manual_seed(seed)
        auto: Any = AutoModelForSeq2SeqLM if shape.encoder_decoder else AutoModelForCausalLM
        config = AutoConfig.for_model(shape.model_type, **shape.options(positions))
        self.base = auto.from_config(config).to(getattr(torch, dtype))
        self._made: dict[tuple[Variant, bool], nn.Module] = {}

    def model(self, variant: Variant, *, head_alone: bool = False) -> Any:
        """The model of a variant; `head_alone` leaves the layers below its output layer out."""
        key = (variant, head_alone)
        if key not in self._made:
            self._made[key] = self._make(variant, head_alone)
        return self._made[key]

    def _make(self, variant: Variant, head_alone: bool) -> Any:
        model = shared_copy(self.base)
        if variant.method != PLAIN:
            attach(model, variant.method, check=False)  # a fresh head costs what a trained one does
            choose_path(model, variant.path)
        return without_backbone(model) if head_alone else model


def shared_copy(model: nn.Module) -> nn.Module:
    """Modules and config are copies, parameters and buffers are the same tensors."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def choose_path(model: Any, path: str) -> None:
    """How the head is computed: `auto` is its own choice."""
    if path == "auto":
        return
    if not hasattr(model.head, "path"):
        raise ValueError(f"path {path!r}: the heads of this version have one path only.")
    model.head.path = path
