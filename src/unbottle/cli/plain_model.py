"""A model without weights, out of a config alone: what follows from its sizes."""

from __future__ import annotations

from typing import Any


def plain_model(model: str | None, shape: str = "") -> Any:
    """On the meta device, nothing is downloaded but a config: that of a folder or a hub model, or of a shape."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.cli.causal_model import language_model

    config = shape_config(shape) if model is None else own_config(model)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"), language_model(model or shape, config):
        return auto.from_config(config)


def shape_config(name: str) -> Any:
    from transformers import AutoConfig

    from unbottle.bench.settings import known
    from unbottle.bench.shape import SHAPES

    known("shape", name, tuple(SHAPES))
    return AutoConfig.for_model(SHAPES[name].model_type, **SHAPES[name].options())


def own_config(model: str) -> Any:
    """That of the model below the head, if it has one."""
    from unbottle.cli.causal_model import config_of_model
    from unbottle.hf.config_face import ConfigFace, take_off

    config = config_of_model(model)
    if isinstance(config, ConfigFace):
        take_off(config)
    return config


def parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
