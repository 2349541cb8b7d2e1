"""load, and what lets the Auto classes load: a directory becomes a model with its head again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, GenerationMixin, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import CONFIG_NAME

from unbottle.hf.attach import AUTO_CLASSES, unbottled
from unbottle.hf.configuration import BASE_TYPE, HEAD, MODEL_TYPE, NO_CODE, PREFIX, ConfigFace, face, stored_head
from unbottle.hf.head_adapter import CONFIG as HEAD_ONLY
from unbottle.hf.weight_checks import (
    HEAD_WEIGHTS,
    MISMATCHED,
    MISSING,
    UNEXPECTED,
    loading_problems,
    refuse_broken_values,
    refuse_other_sizes,
    refuse_wrong_weights,
)

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
        model, info = kind.load_with_info(path, ignore_mismatched_sizes=True, **kwargs)
    except SafetensorError as error:
        raise ValueError(f"{_broken(path)} is truncated or was edited ({error}); save the model again.") from error
    kinds = (MISSING, UNEXPECTED) if shapes_free else (MISMATCHED, MISSING, UNEXPECTED)
    refuse_wrong_weights(path, loading_problems(info, kinds))
    refuse_broken_values(path, model.head.state_dict(prefix=HEAD_WEIGHTS))
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
