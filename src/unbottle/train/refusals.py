"""What train_lm refuses before it touches anything."""

from __future__ import annotations

from typing import Any

from unbottle.hf.attach import innermost
from unbottle.hf.mixin import HeadMixin
from unbottle.train.settings import Settings


def refuse(model: Any, train: Any, settings: Settings) -> None:
    """Models, data and settings that do not go together."""
    target = innermost(model)
    if not settings.output:
        raise ValueError("output is empty: name a folder for the run.")
    if target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is an encoder-decoder model; a causal language model is needed.")
    if settings.train == "head" and not isinstance(target, HeadMixin):
        raise ValueError("train 'head': this model has no head. Give it one first: unbottle.attach(model, method).")
    if settings.train == "lora" and target is not model:
        raise ValueError("train 'lora': this model has adapters already. Give the plain model, or train 'all'.")
    if not hasattr(train, "__len__"):
        if settings.max_steps is None:
            raise ValueError("the text is a stream, whose end is not known: give max_steps instead of epochs.")
    elif not len(train):
        raise ValueError("there is nothing to train on: no window of text.")
    text = target.config.get_text_config()
    limit, length = getattr(text, "max_position_embeddings", None), getattr(train, "length", settings.length)
    if limit is not None and length > limit:
        raise ValueError(f"length {length}: {target._get_name()} reads at most {limit} tokens. Give shorter windows.")
    words = target.get_output_embeddings().weight.shape[0]
    tokens = getattr(train, "tokens", None)
    if tokens is not None and len(tokens) and int(tokens.max()) >= words:
        raise ValueError(
            f"the text has the token {int(tokens.max())}, and the model knows {words}: it is tokenised for another one."
        )
