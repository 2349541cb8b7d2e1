"""The model card, and what a push uploads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.errors import EntryNotFoundError
from saved_models import case, tiny
from transformers import (
    AutoModelForCausalLM,
)

import unbottle


def test_card(tmp_path: Path) -> None:
    model = tiny("gpt2")
    model.config.name_or_path = "openai-community/gpt2"
    unbottle.attach(model, "softmax+cpr:5,20+mi").save_pretrained(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.base_model == "openai-community/gpt2"
    assert card.data.library_name == "unbottle"
    assert {"unbottle", "gpt2"} <= set(card.data.tags)
    added = sum(parameter.numel() for parameter in model.head.parameters())
    for text in ("# Softmax + CPR:5,20 + Mi", "`softmax+cpr:5,20+mi`", "unbottle.load(", f"| {added:,} |"):
        assert text in card.text


def test_card_does_not_tell_where_things_lie(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    for place in (saved / "gpt2.base", Path("gpt2.base")):
        model = unbottle.attach(AutoModelForCausalLM.from_pretrained(place), "softmax+c")
        model.save_pretrained(tmp_path / place.name)
        card = ModelCard.load(tmp_path / place.name / "README.md")
        (tmp_path / place.name / "README.md").unlink()
        assert card.data.base_model is None
        assert "gpt2.base" not in card.content


def test_a_card_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    case("gpt2").save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("by_saving", [False, True])
def test_push(by_saving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push puts an empty card of its own into the directory, and uploads only what changed while it saved."""
    uploaded: dict[str, str] = {}

    def commit(operations, **_) -> None:
        for operation in operations:
            source = operation.path_or_fileobj
            is_text = operation.path_in_repo.endswith((".md", ".json", ".py"))
            uploaded[operation.path_in_repo] = Path(source).read_text(encoding="utf-8") if is_text else ""

    def no_card(*_, **__):
        raise EntryNotFoundError("none")

    hub = SimpleNamespace(create_repo=lambda *_, **__: SimpleNamespace(repo_id="me/mine"), create_commit=commit)
    monkeypatch.setattr("transformers.utils.hub.hf_api", lambda: hub)
    monkeypatch.setattr("transformers.modeling_utils.hf_api", lambda: hub)
    monkeypatch.setattr("transformers.utils.hub.ModelCard.load", no_card)
    model = case("gpt2")
    if by_saving:
        model.save_pretrained(tmp_path / "mine", push_to_hub=True)
    else:
        model.push_to_hub("mine")
    assert {"config.json", "model.safetensors", "unbottle_shim.py", "README.md"} <= set(uploaded)
    assert "# Softmax + CPR:5,20 + Mi" in uploaded["README.md"]
