"""Presets: results and models that are there already are those of the presets as they are."""

import json
from pathlib import Path

import pytest

from unbottle.experiments import EXPERIMENTS, load_experiment
from unbottle.experiments.presets import PRESETS, SUMMARY_PRESETS, same_settings

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "results").glob("cpu/*/results.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
def test_results_in_the_repository_can_be_continued(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    name = data["settings"]["preset"]["name"]
    preset = load_experiment(data["experiment"]).workspace.presets[name]
    assert same_settings(data["settings"], data["settings"] | {"preset": preset.to_dict()})
    other = preset.to_dict() | {"base_share": 0.123}
    assert not same_settings(data["settings"], data["settings"] | {"preset": other})


def test_a_model_in_a_folder_has_its_name_alone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    preset = PRESETS["cpu"]
    here, there = (preset.on_model(model, train="head").to_dict() for model in (str(folder), "owner/mine"))
    assert here["backbones"]["mine"]["pretrained"] == "mine"
    assert there["backbones"]["mine"]["pretrained"] == "owner/mine", "a name of the hub"
    assert same_settings({"preset": here}, {"preset": there}), "as results of earlier versions name it"


def test_the_paper_trains_longer_on_booksum_and_slower_with_bart_large() -> None:
    paper = SUMMARY_PRESETS["paper"]
    found = {(data, size): paper.row_settings(size, data) for data in ("xsum", "booksum") for size in paper.table}
    assert {key for key, rows in found.items() if rows.epochs == 5.0} == {("booksum", size) for size in paper.table}
    assert {key for key, rows in found.items() if rows.lr != 5e-5} == {("booksum", "BART Large")}
    assert found["booksum", "BART Large"].lr == 1e-5


@pytest.mark.parametrize("preset", SUMMARY_PRESETS.values(), ids=list(SUMMARY_PRESETS))
def test_backbones_of_tables_are_there_and_stand_beside_the_paper_s(preset) -> None:
    paper = load_experiment("summarization").paper["samsum"]
    for size in (*preset.table, *preset.curve):
        assert size in preset.backbones
        assert preset.beside.get(size, size) in paper


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_are_registered_under_their_names(name: str) -> None:
    assert load_experiment(name).name == name
