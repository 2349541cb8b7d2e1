"""Models and heads that earlier code saved load, and predict what they predicted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import transformers
from frozen import saved

import unbottle

EXPECTED = json.loads(saved.EXPECTED.read_text(encoding="utf-8"))["models"]
EXACT = os.environ.get("UNBOTTLE_EXACT") == "1"
RELATIVE = 1e-5  # float32
CURRENT = {"separate": "paper", "difference": "residual"}  # forms whose names changed before these files were written


def assert_predicts(model: Any, name: str, folder: str | None = None) -> None:
    found, stored = saved.predicted(model, saved.DATA / (folder or name)), EXPECTED[name]
    if EXACT:
        assert found == stored
        return
    assert float.fromhex(found["loss"]) == pytest.approx(float.fromhex(stored["loss"]), rel=RELATIVE)
    assert len(found["log_probs"]) == len(stored["log_probs"])
    for one, other in zip(found["log_probs"], stored["log_probs"], strict=True):
        assert float.fromhex(one) == pytest.approx(float.fromhex(other), rel=RELATIVE)


def plain() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(saved.DATA / saved.CAUSAL)


@pytest.mark.parametrize("name", EXPECTED)
def test_load(name: str) -> None:
    assert_predicts(unbottle.load(saved.DATA / name), name)


@pytest.mark.parametrize("name", ["causal", "sharded", "seq2seq"])
def test_auto_classes(name: str) -> None:
    auto: Any = transformers.AutoModelForSeq2SeqLM if name == "seq2seq" else transformers.AutoModelForCausalLM
    assert_predicts(auto.from_pretrained(saved.DATA / name), name)


def test_the_sharded_model_has_shards() -> None:
    assert len([*(saved.DATA / "sharded").glob("model-*.safetensors")]) > 2


@pytest.mark.parametrize(("name", "same_as"), [("head", "causal"), ("head-difference", "forms/difference")])
def test_load_head(name: str, same_as: str) -> None:
    assert_predicts(unbottle.load_head(plain(), saved.DATA / name), same_as)


def test_detach() -> None:
    """The model under a saved head is the plain one."""
    found = saved.predicted(unbottle.detach(unbottle.load(saved.DATA / "causal")), saved.DATA / "causal")
    assert found == saved.predicted(plain(), saved.DATA / saved.CAUSAL)


@pytest.mark.parametrize("name", saved.FORMS)
def test_forms(name: str) -> None:
    """A form has a name in a file, and may have another one since; the file says so."""
    written = json.loads((saved.DATA / "forms" / name / "config.json").read_text(encoding="utf-8"))
    assert written["unbottle"]["form"] == name
    model = unbottle.load(saved.DATA / "forms" / name)
    again = unbottle.load(saved.DATA / "forms" / CURRENT.get(name, name))
    assert model.head.config.form == again.head.config.form
    assert_predicts(model, f"forms/{CURRENT.get(name, name)}")


def test_forms_are_different_models() -> None:
    """The weights of these heads are the same numbers, so a form that is mistaken for another would be seen."""
    losses = {EXPECTED[f"forms/{name}"]["loss"] for name in saved.FORMS}
    assert len(losses) == len(saved.FORMS) - len(CURRENT)


def test_saved_again(tmp_path: Path) -> None:
    """What is loaded can be written and loaded once more, with the same weights under the same names."""
    unbottle.load(saved.DATA / "causal").save_pretrained(tmp_path)
    assert_predicts(unbottle.load(tmp_path), "causal", "causal")
    first, second = (folder / "model.safetensors" for folder in (saved.DATA / "causal", tmp_path))
    assert first.read_bytes() == second.read_bytes()


def test_no_file_names_a_folder_of_the_machine_that_wrote_it() -> None:
    for path in saved.DATA.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(mark in content for mark in (b"/tmp/", b"/home/", b"/root/", b"/work/")), path
