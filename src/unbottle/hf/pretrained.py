"""load, and loading a model and its tokenizer by name: safe defaults, length limits, task prefixes and truncation.

Loading never executes code and never unpickles. Importing this file lets the Auto classes load a model with its head.
Commands, the app and experiments use these functions, so that a wrong folder or a name that the Hub does not have is
refused in the same words everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import CONFIG_NAME

from unbottle.hf.attach import AUTO_CLASSES, unbottled
from unbottle.hf.checkpoint import (
    MISMATCHED,
    MISSING,
    UNEXPECTED,
    loading_problems,
    refuse_other_sizes,
    refuse_wrong_weights,
)
from unbottle.hf.configuration import BASE_TYPE, HEAD, MODEL_TYPE, NO_CODE, PREFIX, SAFE, ConfigFace, face, stored_head
from unbottle.hf.head_adapter import CONFIG as HEAD_ONLY
from unbottle.hub_access import check_model, quick_hub

HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")


class UnbottledConfig(PretrainedConfig):
    """The class that AutoConfig finds under `unbottle`. It reads the config of the base model, with a head."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs: Any) -> Any:
        base = _base_config_class(config_dict.get(BASE_TYPE))
        for mapping in AUTO_CLASSES.values():
            if isinstance(model_class := mapping.get(base, None), type):
                unbottled(model_class)  # from now on the Auto class knows it
        return face(base).from_dict(config_dict, **kwargs)


AutoConfig.register(MODEL_TYPE, UnbottledConfig, exist_ok=True)


def load(path: str | Path, **kwargs: Any) -> Any:
    """The model that `save_pretrained` wrote, from a directory or the Hub. Takes what `from_pretrained` takes.

    Unlike `from_pretrained`, it also refuses a checkpoint from which weights of the model under the head are missing.
    """
    if (Path(path) / HEAD_ONLY).is_file() and not (Path(path) / CONFIG_NAME).is_file():
        raise ValueError(
            f"{path} holds a head without its model. Load the base model that {HEAD_ONLY} names with transformers, "
            f"then unbottle.load_head(model, {str(path)!r})."
        )
    options = {name: kwargs[name] for name in HUB_OPTIONS if name in kwargs}
    try:
        config = AutoConfig.from_pretrained(path, **NO_CODE, **options)
    except RecursionError as error:
        raise ValueError(f"{path}: {CONFIG_NAME} is nested too deeply to be the config of a model.") from error
    if not isinstance(config, ConfigFace):
        raise ValueError(
            f"{path} holds a plain {config.model_type} model, without a head. Load it with transformers, then "
            "unbottle.attach(model, method), or unbottle.load_head(model, path) for a head saved by save_head."
        )
    info_wanted, shapes_free = kwargs.pop("output_loading_info", False), kwargs.pop("ignore_mismatched_sizes", False)
    kind = unbottled(_model_class(config))
    if not shapes_free:
        refuse_other_sizes(path, kwargs.get("subfolder") or "", kind, config)
    try:
        model, info = kind.from_pretrained(path, ignore_mismatched_sizes=True, output_loading_info=True, **kwargs)
    except SafetensorError as error:
        raise ValueError(f"{_broken(path)} is truncated or was edited ({error}); save the model again.") from error
    kinds = (MISSING, UNEXPECTED) if shapes_free else (MISMATCHED, MISSING, UNEXPECTED)
    refuse_wrong_weights(path, loading_problems(info, kinds))
    return (model, info) if info_wanted else model


def _base_config_class(name: object) -> type[PretrainedConfig]:
    if name == MODEL_TYPE or not isinstance(name, str) or name not in CONFIG_MAPPING:
        raise ValueError(
            f"config.json: {BASE_TYPE} is {name!r}, which this transformers ({transformers.__version__}) does not "
            "know. Upgrade it; a type of your own needs AutoConfig.register first."
        )
    return CONFIG_MAPPING[name]


def _model_class(config: ConfigFace) -> Any:
    """The plain class of a saved model: by its name if transformers has it, else what the Auto classes would take."""
    name = (config.architectures or [""])[0].removeprefix(PREFIX)
    model_class: Any = getattr(transformers, name, None)
    generates = isinstance(model_class, type) and issubclass(model_class, GenerationMixin)
    if generates and model_class.config_class is config.base_class:
        return model_class
    causal, seq2seq = AUTO_CLASSES.values()
    head = stored_head(getattr(config, HEAD, None), f"config.json, {HEAD!r}")
    model_class = (seq2seq if head.encoder_decoder else causal).get(config.base_class, None)
    if model_class is None:
        raise ValueError(f"config.json: architectures is {config.architectures!r}: transformers has no such model.")
    return model_class


def _broken(path: str | Path) -> str:
    """Which file of weights cannot be read."""
    for file in sorted(Path(path).glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):
                pass
        except SafetensorError:
            return str(file)
    return f"a file of {path}"


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


PARAMETERS, TASK = "task_specific_params", "summarization"  # keys of a config


def prefix_of(model: PreTrainedModel) -> str:
    """The text that a summarization model expects before a document: `summarize: ` for T5, nothing for most."""
    parameters = getattr(model.config, PARAMETERS, None)
    task = parameters.get(TASK) if isinstance(parameters, dict) else None
    return str(task.get("prefix") or "") if isinstance(task, dict) else ""


def keep_prefix(model: PreTrainedModel, prefix: str) -> None:
    """Store the prefix in the model's config, where `prefix_of` finds it after loading."""
    if prefix_of(model) != prefix:
        parameters = getattr(model.config, PARAMETERS, None) or {}
        setattr(model.config, PARAMETERS, {**parameters, TASK: {**parameters.get(TASK, {}), "prefix": prefix}})


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


def truncated(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int, *, target: bool = False
) -> list[tuple[list[int], int]]:
    """For each text its tokens, at most `most` with the special ones, and how many were dropped at the end.

    `target`: as the decoder writes them, for which translation models have another vocabulary or another language.
    """

    def tokens(texts: Sequence[str], **options: Any) -> list[list[int]]:
        if not texts:
            return []
        given: dict[str, Any] = {"text_target" if target else "text": [*texts]}
        ids: list[list[int]] = tokenizer(**given, return_attention_mask=False, verbose=False, **options)["input_ids"]
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
