"""What trainings refuse before they touch anything."""

from __future__ import annotations

from typing import Any

from unbottle.hf.attach import innermost
from unbottle.hf.limits import source_limit, target_limit
from unbottle.hf.mixin import HeadMixin
from unbottle.train.settings import RunSettings, Settings
from unbottle.train.summarize_settings import SummarizeSettings


def refuse(model: Any, train: Any, settings: Settings) -> None:
    """Models, windows and settings that do not go together."""
    target = innermost(model)
    _refuse_folder(settings)
    if target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is an encoder-decoder model; a causal language model is needed.")
    _refuse_mode(model, settings)
    if not hasattr(train, "__len__"):
        if settings.max_steps is None:
            raise ValueError("the text is a stream, whose end is not known: give max_steps instead of epochs.")
    elif not len(train):
        raise ValueError("there is nothing to train on: no window of text.")
    text = target.config.get_text_config()
    limit, length = getattr(text, "max_position_embeddings", None), getattr(train, "length", settings.length)
    if limit is not None and length > limit:
        raise ValueError(f"length {length}: {target._get_name()} reads at most {limit} tokens. Give shorter windows.")
    tokens = getattr(train, "tokens", None)
    if tokens is not None and len(tokens):
        _refuse_token(target, int(tokens.max()))


def refuse_pairs(model: Any, train: Any, settings: SummarizeSettings) -> None:
    """Models, pairs and settings that do not go together."""
    target = innermost(model)
    _refuse_folder(settings)
    if not target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is a causal language model; an encoder-decoder model is needed.")
    _refuse_mode(model, settings)
    if not hasattr(train, "__len__"):
        raise ValueError("the pairs are a stream: give a data set that knows its length, as unbottle.data.Pairs.")
    if not len(train):
        raise ValueError("there is nothing to train on: no pair of document and summary.")
    limits = (
        ("source_length", "document", source_limit(target.config), getattr(train, "longest_source", None)),
        ("target_length", "summary", target_limit(target.config), getattr(train, "longest_target", None)),
    )
    for setting, what, limit, longest in limits:
        if limit is not None and longest is not None and longest > limit:
            raise ValueError(
                f"{setting} {getattr(settings, setting)}: a {what} has {longest} tokens, and {target._get_name()} "
                f"takes at most {limit}. Set {setting} to {limit}, and longer ones are cut."
            )
    if (largest := getattr(train, "largest_token", None)) is not None:
        _refuse_token(target, largest)


def _refuse_folder(settings: RunSettings) -> None:
    if not settings.output:
        raise ValueError("output is empty: name a folder for the run.")


def _refuse_mode(model: Any, settings: RunSettings) -> None:
    target = innermost(model)
    if settings.train == "head" and not isinstance(target, HeadMixin):
        raise ValueError("train 'head': this model has no head. Give it one first: unbottle.attach(model, method).")
    if settings.train == "lora" and target is not model:
        raise ValueError("train 'lora': this model has adapters already. Give the plain model, or train 'all'.")


def _refuse_token(target: Any, largest: int) -> None:
    words = target.get_output_embeddings().weight.shape[0]
    if largest >= words:
        raise ValueError(
            f"the text has the token {largest}, and the model knows {words}: it is tokenised for another one."
        )
