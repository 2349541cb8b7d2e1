"""What people write in their programs, model files and shells is still there, and called as before."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest
from frozen import public

import unbottle

STORED = json.loads(public.FILE.read_text(encoding="utf-8"))
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_no_name_comes_or_goes() -> None:
    assert sorted(unbottle.__all__) == sorted(STORED["names"])


@pytest.mark.parametrize("name", STORED["names"])
def test_how_it_is_called(name: str) -> None:
    assert public.names()[name] == STORED["names"][name]


def test_parameters_of_heads() -> None:
    """Names and shapes in state dicts: saved models depend on them."""
    found = public.head_parameters()
    assert found.keys() == STORED["head_parameters"].keys()
    for name, stored in STORED["head_parameters"].items():
        assert found[name] == stored, name


def test_commands() -> None:
    assert public.commands() == STORED["commands"]


def test_the_program_is_installed() -> None:
    """`unbottle` in a shell calls a function that is there."""
    scripts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts["unbottle"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", sorted({*STORED["names"]} - {"__version__"}))
def test_names_are_found_lazily(name: str) -> None:
    """The program imports what it needs, and asks for names one by one."""
    assert unbottle.__getattr__(name) is getattr(unbottle, name)


def test_what_saved_models_name() -> None:
    """Folders prepared by `python -m unbottle.hub` import this."""
    from unbottle.hub import UnbottledConfig, add_remote_code

    assert UnbottledConfig.model_type == "unbottle"
    assert callable(add_remote_code)
