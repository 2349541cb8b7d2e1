"""A model and its tokenizer, out of the folder a user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unbottle.cli.early import DEMO_MODEL, HUB_NAME, is_demo_model


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
    from unbottle.hf.safe import NO_CODE
    from unbottle.reach import quick_hub, reachable

    logging.disable_progress_bar()  # commands have a bar of their own
    path = fetched(path)
    if not (Path(path) / "config.json").is_file() and (Path(path).exists() or not HUB_NAME.fullmatch(path)):
        raise ValueError(f"model {path!r} has no config.json. Give a folder that save_pretrained wrote.")
    try:
        with quick_hub(path):
            return AutoConfig.from_pretrained(path, **NO_CODE)
    except OSError as error:
        if Path(path).is_dir():
            raise ValueError(
                f"model {path!r} has a config.json that is no valid JSON. Save the model again."
            ) from error
        why = "did not come from the Hub" if reachable() else "the Hub can not be reached"
        raise ValueError(
            f"model {path!r} is no folder here, and {why}. Give a folder that save_pretrained wrote, or {DEMO_MODEL}."
        ) from error


def fetched(path: str) -> str:
    """The folder of the demo's model, which is downloaded if need be; any other path as it is."""
    if not is_demo_model(path):
        return path
    from unbottle.cli.progress import progress
    from unbottle.recipes.demo.plan import SMOLLM2
    from unbottle.recipes.demo.pretrained import place, pretrained, user_cache

    if place(SMOLLM2, user_cache()).exists():
        return str(pretrained(SMOLLM2, user_cache(), lambda done, total, text: None))
    with progress() as report:
        return str(pretrained(SMOLLM2, user_cache(), report))


def refuse_other_kind(path: str, *, encoder_decoder: bool) -> Any:
    """By its config, which is the answer: nothing else is loaded yet."""
    return _config(path, encoder_decoder=encoder_decoder)


@contextmanager
def language_model(path: str, config: Any) -> Iterator[None]:
    """What has no output layer over words is refused by its own name, not by a list of all that have one."""
    try:
        yield
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise ValueError(
            f"model {path!r} is no language model ({config.model_type}). Give a causal model or an encoder-decoder."
        ) from error


def _config(path: str, *, encoder_decoder: bool | None) -> Any:
    """The config of a model of this kind; None: of either."""
    config = config_of_model(path)
    if config.is_encoder_decoder and encoder_decoder is False:
        raise ValueError(f"model {path!r} is an encoder-decoder ({config.model_type}). This takes a causal model.")
    if encoder_decoder and not config.is_encoder_decoder:
        raise ValueError(
            f"model {path!r} is no encoder-decoder ({config.model_type}). This takes one, such as T5 or BART."
        )
    return config


def _model(path: str, *, encoder_decoder: bool | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.config_face import ConfigFace
    from unbottle.hf.safe import SAFE
    from unbottle.hf.saving import load
    from unbottle.reach import quick_hub

    path = fetched(path)
    config = _config(path, encoder_decoder=encoder_decoder)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quick_hub(path), language_model(path, config):
        model: Any = load(path) if isinstance(config, ConfigFace) else auto.from_pretrained(path, **SAFE)
        tokenizer = tokenizer_of(path)
    words = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > words:
        raise ValueError(
            f"model {path!r} knows {words} tokens and its tokenizer has {len(tokenizer)}. Save the tokenizer that the "
            "model was trained with beside it."
        )
    return model, tokenizer


def tokenizer_of(path: str, what: str = "model") -> Any:
    """The tokenizer saved in a folder, and `what` that folder is to people. Without its files, transformers may raise,
    or make one that knows no word."""
    from transformers import AutoTokenizer

    from unbottle.hf.safe import NO_CODE

    failure: Exception | None = None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **NO_CODE)
        if tokenizer("a word")["input_ids"]:
            return tokenizer
    except Exception as error:  # of a damaged file the library in Rust raises no class of its own
        failure = error
    where = "beside it" if what == "model" else "in it"
    raise ValueError(
        f"{what} {path!r} has no tokenizer {where}. Save one there with tokenizer.save_pretrained({path!r})."
    ) from failure


def short_names(paths: Sequence[str]) -> list[str]:
    """The last part of each path, or the whole paths if those are not all different."""
    names = [Path(path).name for path in paths]
    return names if len(set(names)) == len(names) and all(names) else list(paths)
