"""ModelWithHead: the static type of a model with a head."""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput

from unbottle.head import Embedding, Head

ModelT = TypeVar("ModelT")  # the static type of a model, which attaching a head does not change


class WordMatrix(Protocol):
    """A linear layer or an embedding, with one row per word."""

    weight: Tensor


class ModelWithHead(Protocol):
    """A transformers model with a head: what `HeadMixin` adds, and what else the package uses of such a model."""

    head: Head
    base_class: type[PreTrainedModel]  # the model's own class, without the head
    config: PretrainedConfig
    generation_config: GenerationConfig
    training: bool

    @property
    def device(self) -> torch.device: ...

    @property
    def _backbone(self) -> nn.Module: ...

    def __call__(self, *args: object, **kwargs: object) -> ModelOutput: ...

    def get_output_embeddings(self) -> WordMatrix: ...

    def get_input_embeddings(self) -> nn.Module: ...

    def eval(self) -> object: ...

    def train(self, mode: bool = True) -> object: ...

    def _embedding(self) -> Embedding: ...

    def _layers(self, outputs: ModelOutput) -> Tensor: ...

    def _wanted_layers(self) -> bool | list[int]: ...
