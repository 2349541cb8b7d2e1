"""Inference: the device to evaluate on, evaluation mode, and pretrained models that metrics use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from unbottle.hf.pretrained import NO_CODE, SAFE
from unbottle.hub_access import quick_hub

LOUD = ("huggingface_hub", "transformers")


class LanguageModel(Protocol):
    """What evaluation needs of a model: a PreTrainedModel, or a stand-in that computes its logits."""

    config: PretrainedConfig

    @property
    def device(self) -> torch.device: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def get_output_embeddings(self) -> nn.Module: ...
    def modules(self) -> Iterator[nn.Module]: ...
    def eval(self) -> object: ...


class AutoClass(Protocol):
    """AutoModel, AutoModelForCausalLM, ..."""

    def from_pretrained(self, pretrained_model_name_or_path: str, **kwargs: Any) -> Any: ...


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


@contextmanager
def quiet_logging() -> Iterator[None]:
    """No log messages of the Hugging Face libraries: errors are raised, and need not be logged as well."""
    levels = {name: logging.getLogger(name).level for name in LOUD}
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def load_pretrained(auto: AutoClass, name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, list[str]]:
    """A model on the best device, in evaluation mode, its tokenizer, and weights that its checkpoint does not have."""
    with quiet_logging(), quick_hub(name):
        model, info = auto.from_pretrained(name, output_loading_info=True, **SAFE)
        tokenizer = AutoTokenizer.from_pretrained(name, **NO_CODE)
    return model.to(best_device()).eval(), tokenizer, sorted(info["missing_keys"])[:3]
