"""Inference: the device to evaluate on, evaluation mode, and what a model can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from unbottle.hf.pretrained import length_limit


class LanguageModel(Protocol):
    """What evaluation needs of a model: a PreTrainedModel, or a stand-in that computes its logits."""

    config: PretrainedConfig

    @property
    def device(self) -> torch.device: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def get_output_embeddings(self) -> nn.Module: ...
    def modules(self) -> Iterator[nn.Module]: ...
    def eval(self) -> object: ...


def best_device() -> str:
    """A GPU if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


@contextmanager
def evaluating(*models: LanguageModel) -> Iterator[None]:
    """No gradients and no dropout inside; afterwards every module has its previous mode."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def vocabulary_size(model: LanguageModel) -> int:
    return cast(Tensor, model.get_output_embeddings().weight).shape[0]


def check_length(model: LanguageModel, tokens: int) -> None:
    """Refuse a text that is longer than the model can read."""
    limit = length_limit(model.config)
    if limit is not None and tokens > limit:
        raise ValueError(f"a text with {tokens} tokens is too long for a model that reads {limit}. Give shorter texts.")
