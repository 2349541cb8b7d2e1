"""unbottle eval lm-eval: the harness, or one sentence on how to get it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import tiny_causal
from byte_pairs import byte_pairs

from unbottle.cli.main import main


def test_without_the_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    folder = tiny_causal.saved(tmp_path, "plain", byte_pairs())
    assert main(["eval", "lm-eval", folder, "--tasks", "piqa"]) == 2
    assert "pip install 'lm_eval[hf]'" in capsys.readouterr().err


def test_dry_run(capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "lm-eval", "gpt2", "--tasks", "piqa, hellaswag", "--limit", "3", "--dry-run"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings == {"model": "gpt2", "tasks": ["piqa", "hellaswag"], "batch": 8, "limit": 3, "shots": None}


@pytest.mark.parametrize(("args", "said"), [(["--tasks", ","], "expected names"), (["--tasks", "piqa"], "config.json")])
def test_refusals(args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "lm-eval", str(tmp_path), *args]) == 2
    assert said in capsys.readouterr().err


TASK = """
task: which_word
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: text
doc_to_choice: choices
doc_to_target: label
"""


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="needs lm_eval")
def test_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """A model with a head, a task of our own: the harness sees nothing else."""
    import lm_eval.tasks

    rows = [{"text": "The king met", "choices": [" Anna", " Paris"], "label": n % 2} for n in range(3)]
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "which.yaml").write_text(TASK.replace("FILE", str(tmp_path / "rows.json")))
    before = lm_eval.tasks.TaskManager
    ours = lambda: before(include_path=str(tmp_path / "tasks"), include_defaults=False)  # noqa: E731
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", ours)
    folder = tiny_causal.saved(tmp_path / "model", "softmax+cpr:3,9+mi", byte_pairs())
    assert main(["eval", "lm-eval", folder, "--tasks", "which_word", "--output", str(tmp_path / "run")]) == 0
    assert "| which_word, acc " in capsys.readouterr().out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["results"]["which_word"]["acc,none"] in (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert main(["eval", "lm-eval", folder, "--tasks", "no_such_task"]) == 2
    assert "task 'no_such_task'" in capsys.readouterr().err
