"""Models: one base model with random weights, and every variant of it on the same weights."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from unbottle.bench.case import PLAIN, Variant
from unbottle.bench.headless import without_backbone
from unbottle.bench.shape import Shape
from unbottle.hf import attach


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
