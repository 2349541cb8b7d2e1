"""Models on disk, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import save_file
from saved_models import CASES, case, logits

import unbottle


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every case in a directory of its own, with its logits and, for its base model, the head alone."""
    root = tmp_path_factory.mktemp("saved")
    for name in CASES:
        model = case(name)
        model.save_pretrained(root / name)
        save_file({"logits": logits(model)}, root / f"{name}.safetensors")
        unbottle.save_head(model, root / f"{name}.head")
        unbottle.detach(model).save_pretrained(root / f"{name}.base")
    return root


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    case("gpt2").save_pretrained(tmp_path)
    return tmp_path
