"""unbottle eval summaries, from files to a table and result.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unbottle.cli.main import main
from unbottle.eval.summary_scores import DEFAULT_METRICS

DOCUMENTS = ["Anna met Tom in Paris in 1999.", "Nobody came, said Eve.", "It rained for 3 days."]
SUMMARIES = ["Anna met Tom.", "Nobody came.", "It rained for three days."]
FIRST = ["So Anna met Tom.", "Nobody came.", "It rained three days."]
SECOND = ["So Bert met Tom.", "", "Days."]


def rows(predictions: list[str], **more: list[str]) -> list[dict[str, object]]:
    columns = {"id": ["a", "b", "c"], "prediction": predictions, **more}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write(path: Path, lines: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    whole = {"document": DOCUMENTS, "summary": SUMMARIES}
    data = [{"id": name, "dialogue": text, "summary": true} for name, text, true in zip(
        ("c", "b", "a", "d"), [*DOCUMENTS[::-1], "x"], [*SUMMARIES[::-1], "y"], strict=True)]  # fmt: skip
    return {
        "first": write(tmp_path / "first.jsonl", rows(FIRST, **whole)),
        "second": write(tmp_path / "second.jsonl", rows(SECOND, **whole)[::-1]),
        "short": write(tmp_path / "short.jsonl", rows(SECOND, **whole)[1:]),
        "bare": write(tmp_path / "bare.jsonl", rows(FIRST)),
        "data": write(tmp_path / "data.jsonl", data),
        "output": str(tmp_path / "out"),
    }


def run(*args: str) -> int:
    return main(["eval", "summaries", "--tagger", "rules", "--rounds", "50", *args])


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_one_run(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    assert run("--predictions", files["first"], "--output", files["output"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert cells(out[0]) == ["metric", "predictions", "95 %", "examples"]
    assert len({len(line) for line in out if line.startswith("|")}) == 1
    table = {cells(line)[0]: cells(line)[1:] for line in out if line.startswith("|")}
    assert table["support"] == ["1.000", "1.000 to 1.000", "2"]
    assert "support: 1 of 3 summaries have no name and no number and are left out." in out
    assert "3 summaries." in out
    assert out[-1] == f"Written to {files['output']}: config.json, result.json"
    config = json.loads((Path(files["output"]) / "config.json").read_text())
    assert config["settings"]["metrics"] == list(DEFAULT_METRICS)
    result = json.loads((Path(files["output"]) / "result.json").read_text())
    found = result["runs"]["predictions"]
    assert found["ids"] == ["a", "b", "c"]
    assert found["metrics"]["support"]["values"] == [1.0, None, 1.0]
    assert found["metrics"]["r1"]["low"] <= found["metrics"]["r1"]["value"] <= found["metrics"]["r1"]["high"]
    assert result["comparison"] is None


def test_two_runs_by_id(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    args = ("--predictions", files["first"], "--metrics", "r1,support,nist", "--output", files["output"])
    assert run(*args, "--against", files["second"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert cells(out[0]) == ["metric", "predictions", "95 %", "against", "difference", "95 %", "p"]
    result = json.loads((Path(files["output"]) / "result.json").read_text())
    assert result["runs"]["against"]["ids"] == ["a", "b", "c"]
    assert result["runs"]["against"]["metrics"]["support"]["values"] == [0.5, None, None]
    assert result["comparison"]["metrics"]["support"]["difference"] == 0.5
    assert 0 < result["comparison"]["metrics"]["r1"]["p"] <= 1
    assert any("approximate randomisation, two-sided" in line for line in out)
    assert run(*args, "--against", files["first"]) == 0
    same = json.loads((Path(files["output"]) / "result.json").read_text())["comparison"]["metrics"]
    assert {each["p"] for each in same.values()} == {1.0}


def test_runs_of_different_length(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    assert run("--predictions", files["first"], "--against", files["short"], "--metrics", "length") == 0
    out = capsys.readouterr().out
    assert f"1 of 3 examples of {files['first']} are not in the other run and left out." in out
    assert "2 summaries of each run." in out


def test_joined_with_data(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    args = ("--predictions", files["bare"], "--data", files["data"], "--text-column", "dialogue")
    assert run(*args, "--metrics", "r1,copy-rate", "--output", files["output"]) == 0
    joined = json.loads((Path(files["output"]) / "result.json").read_text())["runs"]
    assert f"1 of 4 rows of {files['data']} have no prediction in {files['bare']}" in capsys.readouterr().out
    assert run("--predictions", files["first"], "--metrics", "r1,copy-rate", "--output", files["output"]) == 0
    assert json.loads((Path(files["output"]) / "result.json").read_text())["runs"] == joined


def test_what_can_not_run_says_why(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mauve", None)
    args = ("--metrics", "mauve,factcc,r1", "--entailment", str(tmp_path), "--against", files["second"])
    assert run("--predictions", files["first"], *args) == 0
    out = capsys.readouterr().out.splitlines()
    assert "mauve: cannot be measured: MAUVE needs the package mauve-text, which is not installed: pip install "\
        "mauve-text (GPLv3)." in out  # fmt: skip
    assert sum(line.startswith("factcc: cannot be measured: entailment model") for line in out) == 1
    assert cells(out[2])[0] == "r1"
    assert run("--predictions", files["first"], "--metrics", "mauve", "--output", files["output"]) == 0


def test_dry_run(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    assert run("--predictions", "nowhere.jsonl", "--output", files["output"], "--dry-run") == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings["predictions"] == "nowhere.jsonl"
    assert settings["entailment"] == {"model": "manueldeprada/FactCC", "label": None, "batch": 16}
    assert settings["resampling"] == {"rounds": 50, "seed": 0}
    assert not Path(files["output"]).exists()


def test_only_needed_columns_are_asked_for(files: dict[str, str], capsys: pytest.CaptureFixture) -> None:
    assert run("--predictions", files["bare"], "--metrics", "length,repetition") == 0
    assert run("--predictions", files["bare"], "--metrics", "length,r1") == 2
    error = capsys.readouterr().err
    assert error.endswith("bare.jsonl: row 1: no column 'summary'. There are: id, prediction.\n")


def test_refusals(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    twice = write(tmp_path / "twice.jsonl", [{"id": 1, "prediction": "a"}] * 2)
    other = write(tmp_path / "other.jsonl", [{"id": 7, "prediction": "a"}])
    unnamed = write(tmp_path / "unnamed.jsonl", [{"prediction": "a"}])
    length = ("--metrics", "length")
    for args, said in (
        (("--predictions", twice, *length), "ids that occur more than once: 1. Each must be unique."),
        (("--predictions", other, "--data", twice, *length), "ids that occur more than once"),
        (("--predictions", other, "--data", files["data"]), "1 of 1 predictions have an id that is not in"),
        (("--predictions", unnamed, "--data", files["data"]), "row 1: no column 'id'. There are: prediction."),
        (("--predictions", unnamed, "--against", other, *length), "row 1: no column 'id'. There are: prediction."),
        (("--predictions", files["first"], "--against", other, *length), "the two runs have no id in common"),
        (("--predictions", files["first"], "--metrics", "bleu"), "metric 'bleu': unknown. Known: r1"),
        (("--predictions", files["first"], "--rounds", "3"), "rounds 3: expected 20 or more"),
        (("--predictions", files["first"], "--tagger", "x"), "tagger 'x': unknown"),
        (("--predictions", "nowhere.jsonl"), "nowhere.jsonl: No such file or directory."),
    ):
        assert run(*args) == 2, args
        assert said in capsys.readouterr().err
