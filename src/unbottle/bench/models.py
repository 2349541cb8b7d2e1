"""Models of the benchmark: one base model with random weights, and all variants of its head on the same weights.

For the measures of the head alone, the layers below it are stubs that return precomputed hidden states.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions, ModelOutput

from unbottle.bench.cases import PLAIN, Execution, HeadVariant, Shape
from unbottle.hf import attach

NUM_LAYERS = 4  # hidden states to choose from; the Mi of the paper reads three


class Stub(nn.Module):
    """Replaces a backbone, encoder or decoder, and returns hidden states that were made before."""

    def __init__(self, size: int, dtype: torch.dtype, config: object, kind: type[ModelOutput]) -> None:
        super().__init__()
        self.size, self.dtype, self.config, self.kind = size, dtype, config, kind
        self.embed_tokens = nn.Module()
        self.layers: tuple[Tensor, ...] = ()

    def fill(self, batch: int, length: int, *, device: torch.device, require_grad: bool) -> None:
        """Make hidden states as large as those behind a final norm."""
        generator = torch.Generator().manual_seed(batch * length)
        states = [torch.randn(batch, length, self.size, generator=generator) for _ in range(NUM_LAYERS)]
        self.layers = tuple(state.to(device, self.dtype).requires_grad_(require_grad) for state in states)

    def forget(self) -> None:
        for layer in self.layers:
            layer.grad = None

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def forward(self, *args: object, **kwargs: object) -> ModelOutput:
        return self.kind(last_hidden_state=self.layers[-1], hidden_states=self.layers)


def without_backbone(model: PreTrainedModel) -> PreTrainedModel:
    """The model with stubs in place of its layers; its output layer and its forward stay."""
    weight = model.get_output_embeddings().weight
    size, dtype = weight.shape[1], weight.dtype
    if not model.config.is_encoder_decoder:
        stub = Stub(size, dtype, model.base_model.config, BaseModelOutputWithPastAndCrossAttentions)
        stub.embed_tokens = model.get_input_embeddings()  # a model asks for it before it tells its output embeddings
        setattr(model, model.base_model_prefix, stub)
        return model
    owner = next(part for part in (model, model.base_model) if hasattr(part, "encoder"))
    kinds: dict[str, type[ModelOutput]] = {
        "encoder": BaseModelOutput,
        "decoder": BaseModelOutputWithPastAndCrossAttentions,
    }
    for name, kind in kinds.items():
        setattr(owner, name, Stub(size, dtype, getattr(owner, name).config, kind))
    return model


def fill(model: PreTrainedModel, *, batch: int, length: int, source_length: int, require_grad: bool) -> list[Stub]:
    """Make the hidden states of all stubs of a model, and return the stubs."""
    stubs = [part for part in model.modules() if isinstance(part, Stub)]
    for stub in stubs:
        words = source_length if stub.kind is BaseModelOutput else length  # an encoder's output, or a decoder's
        stub.fill(batch, words, device=model.device, require_grad=require_grad)
    return stubs


class Models:
    """The variants of one shape. They share all weights but those of their heads."""

    def __init__(self, shape: Shape, *, positions: int, execution: Execution) -> None:
        torch.manual_seed(0)
        auto = AutoModelForSeq2SeqLM if shape.encoder_decoder else AutoModelForCausalLM
        config = AutoConfig.for_model(shape.model_type, **shape.options(positions))
        self.base = auto.from_config(config).to(execution.device, getattr(torch, execution.dtype))
        self._execution = execution
        self._models: dict[tuple[HeadVariant, bool], PreTrainedModel] = {}

    def model(self, variant: HeadVariant, *, head_alone: bool = False) -> PreTrainedModel:
        """The model of a variant; `head_alone` leaves the layers below its output layer out."""
        key = (variant, head_alone)
        if key not in self._models:
            self._models[key] = self._make(variant, head_alone)
        return self._models[key]

    def _make(self, variant: HeadVariant, head_alone: bool) -> PreTrainedModel:
        model = shared_copy(self.base)
        if variant.method != PLAIN:
            with_head: Any = attach(model, variant.method, check=False)  # a fresh head costs what a trained one does
            with_head.head.path = variant.path
        if head_alone:
            model = without_backbone(model)
        if self._execution.autocast:
            autocast = torch.autocast(self._execution.device, dtype=torch.bfloat16)
            model.forward = autocast(model.forward)  # the forward pass alone: gradients follow its dtypes
        if self._execution.compile:
            model.compile()
        return model


def shared_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Modules and config are copies, parameters and buffers are the same tensors."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
