"""attach and detach: a model gets another output layer, and gives it back."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from transformers import PreTrainedModel

from unbottle.head import Head, HeadConfig
from unbottle.hf.causal import CausalHead
from unbottle.hf.mixin import HeadMixin
from unbottle.hf.parity import UnsupportedArchitectureError, probe, refuse_difference
from unbottle.hf.seq2seq import Seq2SeqHead, remember_source
from unbottle.spec import Method


def attach(model: Any, method: str | Method, *, convention: str = "paper", check: bool = True) -> Any:
    """Give a live model a head. The model itself changes: same parameters, same names, plus `model.head`.

    A fresh head predicts what the model predicted, and `check` makes sure of it on a probe batch: an architecture whose
    output layer does something the head does not know is refused, not silently changed. Works on a PEFT model too.
    """
    method = Method.parse(method)
    target: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    _refuse(target)
    before = probe(target) if check else None
    head = Head(head_config(target, method, convention))
    weight = target.get_output_embeddings().weight
    if weight.device.type == "meta":
        head = head.to("meta")
    target.head = head.to(device=weight.device, dtype=weight.dtype)
    base: Any = type(target)
    target.__class__ = unbottled(base)
    if target.config.is_encoder_decoder:
        target.head_hook = target.get_encoder().register_forward_hook(remember_source, with_kwargs=True)
    if before is not None:
        try:
            refuse_difference(target, before)
        except Exception:
            detach(target)
            raise
    return model


def detach(model: Any) -> Any:
    """The plain model again; the head is gone."""
    target: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(target, HeadMixin):
        raise ValueError(f"{type(target).__name__} has no head to detach.")
    if hook := target.__dict__.pop("head_hook", None):
        hook.remove()
    plain: Any = target.base_class
    target.__class__ = plain
    del target.head
    return model


def head_config(model: Any, method: Method, convention: str = "paper") -> HeadConfig:
    """What a head for this model looks like."""
    weight = model.get_output_embeddings().weight
    encoder = model.get_encoder() if model.config.is_encoder_decoder else None
    source_size = getattr(encoder.config, "hidden_size", None) if encoder is not None else None
    return HeadConfig(
        method=method,
        hidden_size=weight.shape[1],
        vocabulary=weight.shape[0],
        encoder_decoder=model.config.is_encoder_decoder,
        source_size=source_size,
        convention=convention,
    )


@functools.cache
def unbottled(base: Any) -> Any:
    """The subclass of a model's class that has a head."""
    if issubclass(base, HeadMixin):
        return base
    mixin = Seq2SeqHead if "decoder_input_ids" in inspect.signature(base.forward).parameters else CausalHead
    return type(f"Unbottled{base.__name__}", (mixin, base), {"base_class": base, "__module__": __name__})


def _refuse(model: Any) -> None:
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"attach to a {name}: expected a transformers model, or a PEFT model around one.")
    if isinstance(model, HeadMixin):
        raise ValueError(f"this model already has a head ({model.head.config.method}). Use detach first.")
    if "forward" in model.__dict__:
        raise ValueError(
            f"the forward of this {name} was replaced on the instance (dispatched, prepared or patched), and the head "
            "would never be called. Attach before dispatch_model, accelerator.prepare or kernels that patch models."
        )
    output = model.get_output_embeddings()
    if output is None or not isinstance(getattr(output, "weight", None), torch.Tensor) or not model.can_generate():
        raise UnsupportedArchitectureError(f"{name} has no output embeddings to predict words with.")
    if not output.weight.is_floating_point():
        raise UnsupportedArchitectureError(
            f"the output embeddings of this {name} are {output.weight.dtype}, and the head reads rows of them. "
            "Leave lm_head out of the quantisation."
        )
