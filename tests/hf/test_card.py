"""The model card, and what a push uploads."""

from __future__ import annotations

import shutil
from dataclasses import replace
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
from unbottle.hf.model_card import TrainingRecord, model_card


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


LICENCED = "---\nlicense: other\nlicense_name: hearth\nlicense_link: LICENSE\n---\n\n# A base model\n"


def test_the_licence_of_the_base(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its folder; of the cache; of the Hub, which is asked only for a push."""
    base = tmp_path / "base"
    shutil.copytree(saved / "gpt2.base", base)
    model = unbottle.attach(AutoModelForCausalLM.from_pretrained(base), "softmax+c")
    assert model_card(model).data.license is None
    (base / "README.md").write_text(LICENCED, encoding="utf-8")
    card = model_card(model)
    assert (card.data.license, card.data.license_name, card.data.license_link) == ("other", "hearth", "LICENSE")
    assert "| licence of the base model | hearth |" in card.text
    (base / "README.md").write_text("---\nlicense: [\n---\n", encoding="utf-8")
    assert model_card(model).data.license is None, "a card that cannot be read does not stop a save"
    tiny_gpt2 = tiny("gpt2")
    tiny_gpt2.config.name_or_path = "openai-community/gpt2"
    model = unbottle.attach(tiny_gpt2, "softmax+c")
    (base / "README.md").write_text(LICENCED.replace("other", "mit"), encoding="utf-8")
    asked: list[str] = []
    load = ModelCard.load
    monkeypatch.setattr(
        "unbottle.hf.model_card.ModelCard.load",
        lambda place: asked.append(place) or load(base / "README.md") if isinstance(place, str) else load(place),
    )
    monkeypatch.setattr("unbottle.hub_access.reachable", lambda: True)
    assert model_card(model).data.license is None
    assert asked == []
    card = model_card(model, repo_id="me/mine")
    assert (card.data.license, asked) == ("mit", ["openai-community/gpt2"])
    assert 'unbottle.load("me/mine")' in card.text
    monkeypatch.setattr("unbottle.hf.model_card.try_to_load_from_cache", lambda name, file: str(base / file))
    assert model_card(model).data.license == "mit"


RECORD = TrainingRecord(
    data="owner/texts:small",
    fingerprint="0123456789abcdef",
    train="head",
    steps=1200,
    tokens=960000,
    settings={"lr": 1e-4, "seed": 7},
    valid_losses=(3.5, 3.0),
)


def test_numbers_of_the_run() -> None:
    card = model_card(case("gpt2"), training=RECORD)
    assert card.data.datasets == "owner/texts"
    for row in (
        "| data | [owner/texts:small](https://huggingface.co/datasets/owner/texts) |",
        "| trained | the output layer; the model below it is frozen |",
        "| steps | 1,200 |",
        "| tokens | 960,000 |",
        "| lr | 0.0001 |",
        "| seed | 7 |",
        "| validation perplexity, before -> after | 33.1155 -> 20.0855 |",
    ):
        assert row in card.text.splitlines()
    again = ModelCard(card.content)  # as the Hub reads it
    assert {result.metric_type: result.metric_value for result in again.data.eval_results} == {
        "loss": 3.0,
        "perplexity": pytest.approx(20.0855369),
    }
    assert {(result.dataset_type, result.dataset_split) for result in again.data.eval_results} == {
        ("owner/texts", "validation")
    }


def test_local_data_is_named_by_its_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear", encoding="utf-8")
    card = model_card(case("gpt2"), training=replace(RECORD, data=str(tmp_path / "diary.txt")))
    assert card.data.datasets is None
    assert "| data | local data, fingerprint 0123456789abcdef |" in card.text
    assert "diary" not in card.content


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_the_card_of_a_head(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    model.config.name_or_path = "owner/base"
    unbottle.save_head(unbottle.attach(model, "softmax+r:5"), tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.base_model, card.data.base_model_relation) == ("owner/base", "adapter")
    assert card.data.library_name == "unbottle"
    auto = {"gpt2": "AutoModelForCausalLM", "t5": "AutoModelForSeq2SeqLM"}[name]
    for text in ("An output layer for [owner/base]", "`softmax+r:5`", f'{auto}.from_pretrained("owner/base")'):
        assert text in card.text
    assert "unbottle.load_head(model, " in card.text
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    unbottle.save_head(model, tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


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
    assert {"config.json", "model.safetensors", "README.md"} <= set(uploaded)
    assert not [name for name in uploaded if name.endswith(".py")]
    assert "# Softmax + CPR:5,20 + Mi" in uploaded["README.md"]
    assert 'unbottle.load("me/mine")' in uploaded["README.md"]
