"""ConfigFace: the config of a model with a head. Its model type is the base model's in memory, and `unbottle` on disk.

So everything that reads `model_type` (PEFT, lm-eval, the conversion of MoE weights, ...) works as before, and a plain
transformers refuses the directory, where it would otherwise load the model without its head: Auto classes refuse the
unknown type, and the model's own class, which only warns about types, refuses a `use_cache` that is not a bool. (Code
that reads any config, as the Trainer does when it resumes, ignores it.)

`stored_head` validates the head's part of such a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from huggingface_hub.errors import StrictDataclassError
from transformers import PretrainedConfig

from unbottle.head import HeadConfig
from unbottle.method import Method

if TYPE_CHECKING:
    from typing import Any as Config  # what the mixin is mixed into: a config class
else:
    Config = object


MODEL_TYPE = "unbottle"  # the model type on disk
BASE_TYPE = "base_model_type"  # the model type in memory, as it is called on disk
BASE_NAME = "base_model_name_or_path"  # where the base model came from, on disk and in memory
HEAD = "unbottle"  # the head's config, on disk and in memory
PLACE, REAL = "use_cache", "base_use_cache"  # where the guard stands, and what it stands for
GUARD = "this model has a head: load it with unbottle.load"  # which no model's config takes for a bool
AUTO_MAP = "auto_map"  # what trust_remote_code=True runs; see unbottle.hub
PREFIX = "Unbottled"  # of the names of classes with a head
NO_CODE: dict[str, Any] = {"trust_remote_code": False}  # without it transformers asks at the terminal
SAFE = NO_CODE | {"use_safetensors": True}  # no pickle, which runs code when it is read


class ConfigFace(Config):
    """Comes before the config's own class: the same attributes, and a head. Its files have another model type.

    The type follows `architectures`, which transformers sets to the class it is about to save: the backbone alone
    (`model.base_model.save_pretrained`) is written as the plain backbone that it is.
    """

    base_class: type[PretrainedConfig]  # the config's own class, set when the subclass is made

    @property
    def has_head(self) -> bool:
        """Whether what is written has a head."""
        names = self.architectures
        return names is None or any(name.startswith(PREFIX) for name in names)

    def to_json_string(self, use_diff: bool = True) -> str:
        data = json.loads(super().to_json_string(use_diff=use_diff))
        if self.has_head:
            data[BASE_TYPE], data["model_type"] = data["model_type"], MODEL_TYPE
            data = _guarded(data, self.to_dict())
        else:
            data = {key: value for key, value in data.items() if key not in (HEAD, BASE_NAME)}
        return json.dumps(data, indent=2, sort_keys=True) + "\n"

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict, dict]:
        data, unused = super().get_config_dict(*args, **kwargs)
        return in_memory(data), unused

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs: Any) -> Any:
        """From a file, or from `to_dict`. A config without a head is accepted here, and refused by models."""
        config_dict = in_memory(config_dict)
        if HEAD in config_dict:
            stored_head(config_dict[HEAD], f"config.json, {HEAD!r}")
        try:
            config: Any = cls.base_class.from_dict(config_dict, **kwargs)
        except StrictDataclassError as error:
            raise ValueError(f"config.json: {' '.join(str(error).split())}") from error
        _wear(config[0] if isinstance(config, tuple) else config, cls)
        return config

    def __reduce__(self) -> tuple:
        return _rebuilt, (self.base_class, dict(self.__dict__))


def face(base: type[PretrainedConfig]) -> type[ConfigFace]:
    """The subclass of a config's class that can hold a head."""
    if issubclass(base, ConfigFace):
        return base
    if base not in _FACES:
        members = {"base_class": base, "__module__": __name__}
        _FACES[base] = type(PREFIX + base.__name__, (ConfigFace, base), members)
    return _FACES[base]


_FACES: dict[type[PretrainedConfig], type[ConfigFace]] = {}


def in_memory(data: dict) -> dict:
    """What a file says, with the base model's type. A plain config is returned as it is."""
    if data.get("model_type") != MODEL_TYPE:
        return data
    kept = {key: value for key, value in _unguarded(data).items() if key not in (BASE_TYPE, AUTO_MAP)}
    return kept | {"model_type": data.get(BASE_TYPE)}


def _guarded(data: dict, whole: dict) -> dict:
    """This config and all in it, with a guard that stops every config class that has its place.

    `data` may leave out what is as usual; `whole` has it.
    """
    inner = {key: _guarded(data.get(key, {}), value) for key, value in whole.items() if _is_config(value)}
    guard = {PLACE: GUARD, REAL: whole[PLACE]} if PLACE in whole else {}
    return data | inner | guard


def _unguarded(data: dict) -> dict:
    inner = {key: _unguarded(value) for key, value in data.items() if _is_config(value)}
    real = {PLACE: data[REAL]} if data.get(PLACE) == GUARD else {}
    return {key: value for key, value in (data | inner | real).items() if key != REAL}


def _is_config(value: object) -> bool:
    return isinstance(value, dict) and "model_type" in value


def put_on(config: PretrainedConfig, head: HeadConfig) -> None:
    """Add a head to a config, in place: the parts of a model share it."""
    if not isinstance(config, ConfigFace):
        _wear(config, face(type(config)))
        if config.architectures is not None:
            config.architectures = [PREFIX + name for name in config.architectures]
    setattr(config, HEAD, head.to_dict())
    if BASE_NAME not in config.__dict__:
        setattr(config, BASE_NAME, config.name_or_path)


def take_off(config: ConfigFace) -> None:
    """Remove the head of a config, in place."""
    _wear(config, config.base_class)
    for name in (HEAD, BASE_NAME):
        config.__dict__.pop(name, None)
    if config.architectures is not None:
        config.architectures = [name.removeprefix(PREFIX) for name in config.architectures]


def _wear(config: object, kind: type) -> None:
    object.__setattr__(config, "__class__", kind)


def _rebuilt(base: Any, attributes: dict) -> Any:
    config = object.__new__(face(base))
    config.__dict__.update(attributes)
    return config


def stored_head(data: object, where: str) -> HeadConfig:
    """The head's config, or a ValueError that names the place: unknown and missing keys and wrong types are refused."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: expected the config of a head, an object with the key 'method'; got {data!r}.")
    known = {field.name: field for field in fields(HeadConfig)}
    if unknown := sorted(str(key) for key in set(data) - set(known)):
        raise ValueError(
            f"{where}: unknown key {unknown[0]!r}. Known: {', '.join(known)}. "
            "If a newer unbottle wrote it, upgrade: pip install -U unbottle."
        )
    for name, field in known.items():
        if name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: the key {name!r} is missing.")
    allowed = {name: _json_types(hint) for name, hint in get_type_hints(HeadConfig).items()}
    for name, value in data.items():
        if type(value) not in allowed[name]:
            expected = " or ".join(kind.__name__.replace("NoneType", "null") for kind in allowed[name])
            raise ValueError(f"{where}: {name} is {value!r}, expected {expected}.")
    try:
        return HeadConfig(**{**data, "method": Method.parse(data["method"])})
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _json_types(hint: Any) -> tuple[type, ...]:
    """What a field of this type looks like in a file: a method is text, everything else is itself."""
    if get_origin(hint) in (UnionType, Union):
        return tuple(kind for part in get_args(hint) for kind in _json_types(part))
    return (str,) if hint is Method else (float, int) if hint is float else (get_origin(hint) or hint,)
