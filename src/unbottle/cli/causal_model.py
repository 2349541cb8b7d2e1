"""A model and its tokenizer, out of the folder a user names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # what else is missing is not looked for there


def causal_model(path: str) -> tuple[Any, Any]:
    """The model, with its head if it has one, and the tokenizer saved beside it."""
    return _model(path, encoder_decoder=False)


def seq2seq_model(path: str) -> tuple[Any, Any]:
    """The same for an encoder-decoder model."""
    return _model(path, encoder_decoder=True)


def any_model(path: str) -> tuple[Any, Any]:
    """The same for a model of either kind."""
    return _model(path, encoder_decoder=None)


def config_of_model(path: str) -> Any:
    """Its config, out of a folder or from the Hub; refuses what is neither."""
    from transformers import AutoConfig
    from transformers.utils import logging

    import unbottle.hf.saving  # noqa: F401  from here on AutoConfig knows our models
    from unbottle.hf.reach import quick_hub, reachable
    from unbottle.hf.safe import NO_CODE

    logging.disable_progress_bar()  # commands have a bar of their own
    if not (Path(path) / "config.json").is_file() and (Path(path).exists() or not HUB_NAME.fullmatch(path)):
        raise ValueError(f"model {path!r} has no config.json. Give a folder that save_pretrained wrote.")
    try:
        with quick_hub(path):
            return AutoConfig.from_pretrained(path, **NO_CODE)
    except OSError as error:
        why = "did not come from the Hub" if reachable() else "the Hub can not be reached"
        raise ValueError(
            f"model {path!r} is no folder here, and {why}. Give a folder that save_pretrained wrote."
        ) from error


def _model(path: str, *, encoder_decoder: bool | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.config_face import ConfigFace
    from unbottle.hf.reach import quick_hub
    from unbottle.hf.safe import SAFE
    from unbottle.hf.saving import load

    config = config_of_model(path)
    _refuse_kind(path, config, encoder_decoder=encoder_decoder)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quick_hub(path):
        model: Any = load(path) if isinstance(config, ConfigFace) else auto.from_pretrained(path, **SAFE)
        tokenizer = tokenizer_of(path)
    words = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > words:
        raise ValueError(
            f"model {path!r} knows {words} tokens and its tokenizer has {len(tokenizer)}. Save the tokenizer that the "
            "model was trained with beside it."
        )
    return model, tokenizer


def refuse_other_kind(path: str, *, encoder_decoder: bool) -> None:
    """By its config: nothing else is loaded yet."""
    _refuse_kind(path, config_of_model(path), encoder_decoder=encoder_decoder)


def _refuse_kind(path: str, config: Any, *, encoder_decoder: bool | None) -> None:
    if config.is_encoder_decoder and encoder_decoder is False:
        raise ValueError(f"model {path!r} is an encoder-decoder ({config.model_type}). This takes a causal model.")
    if encoder_decoder and not config.is_encoder_decoder:
        raise ValueError(f"model {path!r} is a causal model ({config.model_type}). This takes an encoder-decoder.")


def tokenizer_of(path: str) -> Any:
    """The tokenizer saved in a folder. Without its files, transformers may raise, or make one that knows no word."""
    from transformers import AutoTokenizer

    from unbottle.hf.safe import NO_CODE

    failure: Exception | None = None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **NO_CODE)
        if tokenizer("a word")["input_ids"]:
            return tokenizer
    except (OSError, ValueError) as error:
        failure = error
    raise ValueError(
        f"model {path!r} has no tokenizer beside it. Save one there with tokenizer.save_pretrained({path!r})."
    ) from failure


def short_names(paths: Sequence[str]) -> list[str]:
    """The last part of each path, or the whole paths if those are not all different."""
    names = [Path(path).name for path in paths]
    return names if len(set(names)) == len(names) and all(names) else list(paths)
