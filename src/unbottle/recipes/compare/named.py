"""A model by its name, wherever it lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbottle.recipes.any_preset import AnyPreset, Backbone


def named_model(preset: AnyPreset) -> dict[str, Backbone]:
    """The backbones of a preset without the folders of this machine."""
    return {
        title: replace(backbone, pretrained=Path(str(backbone.pretrained)).name)
        for title, backbone in preset.backbones.items()
    }
