"""Load a model and its tokenizer by name: safe defaults, length limits, task prefixes and truncation.

Loading never executes code and never unpickles. Commands, the app and experiments use these functions, so that a wrong
folder or a name that the Hub does not have is refused in the same words everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from unbottle.hf.configuration import NO_CODE, SAFE, ConfigFace
from unbottle.hf.loading import load
from unbottle.hub_access import check_model, quick_hub


def load_config(path: str, *, encoder_decoder: bool | None = None) -> PretrainedConfig:
    """The config of a model in a folder or on the Hub, with or without a head.

    `encoder_decoder` says which kind of model is expected; the other one is refused. None: either.
    """
    check_model(path)
    try:
        with quick_hub(path):
            config: PretrainedConfig = AutoConfig.from_pretrained(path, **NO_CODE)
    except OSError as error:
        raise ValueError(f"model {path!r}: its config cannot be loaded ({' '.join(str(error).split())}).") from error
    if config.is_encoder_decoder and encoder_decoder is False:
        raise ValueError(f"model {path!r} is an encoder-decoder ({config.model_type}). This takes a causal model.")
    if encoder_decoder and not config.is_encoder_decoder:
        raise ValueError(
            f"model {path!r} is not an encoder-decoder ({config.model_type}). This takes one, such as T5 or BART."
        )
    return config


def load_model(path: str, *, encoder_decoder: bool | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A language model in a folder or on the Hub, with its head if it has one, and the tokenizer saved beside it."""
    config = load_config(path, encoder_decoder=encoder_decoder)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quick_hub(path):
        with language_model(path, config):
            model = load(path) if isinstance(config, ConfigFace) else auto.from_pretrained(path, **SAFE)
        tokenizer = load_tokenizer(path)
    words = len(model.get_input_embeddings().get_parameter("weight"))
    if len(tokenizer) > words:
        raise ValueError(
            f"model {path!r} knows {words} tokens and its tokenizer has {len(tokenizer)}. Save the tokenizer that the "
            "model was trained with beside it."
        )
    return model, tokenizer


@contextmanager
def language_model(path: str, config: PretrainedConfig) -> Iterator[None]:
    """Inside the block, an Auto class that meets a model without an output layer over words names that model."""
    try:
        yield
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise ValueError(
            f"model {path!r} is not a language model ({config.model_type}). Give a causal model or an encoder-decoder."
        ) from error


def load_tokenizer(path: str, what: str = "model") -> PreTrainedTokenizerBase:
    """The tokenizer saved in a folder or on the Hub; errors call that folder `what`.

    Where its files are missing, transformers raises, or makes a tokenizer that knows no word: both are refused.
    """
    failure: Exception | None = None
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, **NO_CODE)
        if tokenizer("a word")["input_ids"]:
            return tokenizer
    except Exception as error:  # the Rust library has no exception class of its own for a damaged file
        failure = error
    where = "beside it" if what == "model" else "in it"
    raise ValueError(
        f"{what} {path!r} has no tokenizer {where}. Save one there with tokenizer.save_pretrained({path!r})."
    ) from failure


PARAMETERS, TASK, PREFIX = "task_specific_params", "summarization", "prefix"


class HasConfig(Protocol):
    """A model, as far as its config is concerned."""

    @property
    def config(self) -> Any: ...


def prefix_of(model: HasConfig) -> str:
    """The text that a summarization model expects before a document: `summarize: ` for T5, nothing for most."""
    parameters = getattr(model.config, PARAMETERS, None)
    task = parameters.get(TASK) if isinstance(parameters, dict) else None
    return str(task.get(PREFIX) or "") if isinstance(task, dict) else ""


def keep_prefix(model: HasConfig, prefix: str) -> None:
    """Store the prefix in the model's config, where `prefix_of` finds it after loading."""
    if prefix_of(model) != prefix:
        parameters = getattr(model.config, PARAMETERS, None) or {}
        setattr(model.config, PARAMETERS, {**parameters, TASK: {**parameters.get(TASK, {}), PREFIX: prefix}})


def source_limit(config: PretrainedConfig) -> int | None:
    """The number of positions of the encoder; None (T5 and its relatives): no limit."""
    return _first(config, "max_encoder_position_embeddings", "max_source_positions", "max_position_embeddings")


def target_limit(config: PretrainedConfig) -> int | None:
    """The number of positions of the decoder; None: no limit."""
    return _first(config, "max_decoder_position_embeddings", "max_target_positions", "max_position_embeddings")


def length_limit(config: PretrainedConfig) -> int | None:
    """The number of positions of a causal model; None: no limit."""
    return _first(config.get_text_config(), "max_position_embeddings", "n_positions")


def _first(config: PretrainedConfig, *names: str) -> int | None:
    return next((int(value) for name in names if (value := getattr(config, name, None)) is not None), None)


def truncated(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[tuple[list[int], int]]:
    """For each text its tokens, at most `most` with the special ones, and how many were dropped at the end."""

    def tokens(texts: Sequence[str], **options: Any) -> list[list[int]]:
        if not texts:
            return []
        ids: list[list[int]] = tokenizer([*texts], return_attention_mask=False, verbose=False, **options)["input_ids"]
        return ids

    whole = tokens(texts)
    long = [place for place, ids in enumerate(whole) if len(ids) > most]
    cut = dict(zip(long, tokens([texts[place] for place in long], truncation=True, max_length=most), strict=True))
    return [(list(cut.get(place, ids)), len(ids) - len(cut.get(place, ids))) for place, ids in enumerate(whole)]


@contextmanager
def without_bars(logging: Any, level: int | None = None) -> Iterator[None]:
    """Hide progress bars inside the block, and restore bars and log level at its end. `logging` is that of
    transformers.utils or of datasets, which have the same functions; `level` is the log level inside the block."""
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    if level is not None:
        logging.set_verbosity(level)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
