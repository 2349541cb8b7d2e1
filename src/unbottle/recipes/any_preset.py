"""AnyPreset: what presets of all kinds of experiments have."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from unbottle.train.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """The plain model that all methods start from: a pretrained one by name, or one of this config, trained first."""

    pretrained: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AnyPreset:
    """Base: how a backbone is trained from nothing, on the first part of the data. Rows: how each method goes on."""

    name: str
    about: str
    data: str  # unless other data are given
    backbones: dict[str, Backbone]  # the first is the one of most tables
    rows: RunSettings
    base: RunSettings | None = None
    base_share: float = 0.0  # of the training data; rows go on with the rest
    vocabulary: int | None = None  # of the tokenizer that is trained too

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
