"""Run folders of earlier code are resumed and end as they would have; its results are read, not measured again.

Command lines stand in saved.py.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers
from frozen import public, saved
from safetensors.torch import load_file

import unbottle

EXPECTED = json.loads(saved.EXPECTED.read_text(encoding="utf-8"))["runs"]
EXACT = os.environ.get("UNBOTTLE_EXACT") == "1"
RELATIVE = 1e-4  # of losses and weights after a few steps in float32


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of data/, which must not change, as the working directory."""
    shutil.copytree(saved.DATA, tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    return tmp_path / "data"


def assert_ended(found: dict[str, Any], stored: dict[str, Any]) -> None:
    if EXACT:
        assert found == stored
        return
    assert found["steps"] == stored["steps"]
    for name in ("losses", "valid_losses"):
        assert [step for step, _ in found[name]] == [step for step, _ in stored[name]]
        for (_, one), (_, other) in zip(found[name], stored[name], strict=True):
            assert float.fromhex(one) == pytest.approx(float.fromhex(other), rel=RELATIVE), name
    assert found["weights"].keys() == stored["weights"].keys()
    for name, other in stored["weights"].items():
        assert float.fromhex(found["weights"][name]) == pytest.approx(float.fromhex(other), rel=RELATIVE, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in saved.RUNS if name not in saved.FINISHED])
def test_interrupted_runs_resume(name: str, copy: Path) -> None:
    assert [path.name for path in (copy / "runs" / name / "checkpoints").iterdir()] == [f"checkpoint-{saved.BROKEN}"]
    assert not (copy / "runs" / name / "model").exists()
    with saved.counted() as steps:
        saved.command(*saved.RUNS[name])
    assert steps == [saved.STEPS - saved.BROKEN], "not from the beginning"
    assert_ended(saved.ended(copy / "runs" / name), EXPECTED[name])


@pytest.mark.parametrize("name", saved.FINISHED)
def test_finished_runs_are_not_trained_again(name: str, copy: Path) -> None:
    assert_ended(saved.ended(copy / "runs" / name), EXPECTED[name])
    with saved.counted() as steps:
        saved.command(*saved.RUNS[name])
    assert steps == [0]
    assert_ended(saved.ended(copy / "runs" / name), EXPECTED[name])


def test_another_run_is_refused(copy: Path) -> None:
    """The record of a run is still compared with what is asked for."""
    code, _ = public.run(*saved.RUNS["all"], "--seed", "1")
    assert code == 2
    assert not (copy / "runs" / "all" / "model").exists()


def test_adapters(copy: Path) -> None:
    """What PEFT loads onto the base model is what was merged."""
    from peft import PeftModel

    base = transformers.AutoModelForCausalLM.from_pretrained(saved.CAUSAL)
    adapted = PeftModel.from_pretrained(unbottle.attach(base, saved.METHOD), "runs/lora/adapter")
    model = copy / "runs" / "lora" / "model"
    merged = saved.predicted(unbottle.load(model), model)
    found = saved.predicted(adapted, model)
    assert float.fromhex(found["loss"]) == pytest.approx(float.fromhex(merged["loss"]), rel=1e-5)
    assert load_file("runs/lora/adapter/adapter_model.safetensors").keys() >= {"base_model.model.head.L.C.weight"}


@pytest.mark.parametrize("folder", saved.RESULTS)
def test_results_are_not_measured_again(folder: str, copy: Path) -> None:
    before = json.loads((copy / folder / "results.json").read_text(encoding="utf-8"))
    with saved.counted() as steps:
        saved.command(*saved.RESULTS[folder])
    assert steps == [0]
    after = json.loads((copy / folder / "results.json").read_text(encoding="utf-8"))
    for name in ("experiment", "settings", "rows", "together"):
        assert after[name] == before[name], name
    assert not [*(copy / "work").rglob("*.safetensors")], "nothing is trained"


@pytest.mark.parametrize("folder", ["results/longer.txt-head", pytest.param("results/table1", marks=pytest.mark.full)])
def test_rows_are_added_to_results(folder: str, copy: Path) -> None:
    before = saved.rows(copy / folder)
    with saved.counted() as steps:
        saved.command(*saved.RESULTS[folder], "--method", saved.ONE_MORE[folder])
    assert steps > [0]
    after = saved.rows(copy / folder)
    assert after[: len(before)] == before
    assert [row["method"] for row in after[len(before) :]] == [saved.ONE_MORE[folder]]


def test_report(copy: Path) -> None:
    """The page reads results and runs."""
    saved.command("report", *saved.RESULTS, "--output", "page.html")
    page = (copy / "page.html").read_text(encoding="utf-8")
    assert "Softmax + C + Mi" in page
