"""stored_head: a head's config as it comes from a file, where anything may stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from unbottle.head import HeadConfig
from unbottle.spec import Method


def stored_head(data: Any, where: str) -> HeadConfig:
    """The head's config, or a ValueError that names the place: unknown and missing keys and wrong types are refused."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: expected the config of a head, an object with the key 'method'; found {data!r}.")
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
