"""unbottle eval summaries --model: a model writes, then all is scored; what was written is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_summaries as tiny

from unbottle.cli.main import main
from unbottle.eval import Decoding, predictions

ROWS = [
    *({"id": row["id"], "body": row["document"], "short": row["summary"]} for row in tiny.rows(5, seed=3)),
    {"id": "empty", "body": "", "short": "nothing"},
    {"id": "long", "body": "the king " * 40, "short": "king"},
    {"id": "other", "body": "国王 Ωμέγα", "short": "国王"},
]
METRICS = ("--metrics", "r1,support,copy-rate,length", "--tagger", "rules", "--rounds", "50")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.saved(tmp_path_factory.mktemp("model"))


def data(path: Path, rows: list[dict] = ROWS) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def run(model: str, rows: str, output: Path, *more: str) -> int:
    columns = ("--text-column", "body", "--summary-column", "short")
    given = ("--model", model, "--data", rows, *columns, "--output", str(output), "--set", "max-length=8")
    return main(["eval", "summaries", *given, "--set", "batch=3", *METRICS, *more])


def test_a_model_writes_and_is_scored(model: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows, folder = data(tmp_path / "test.jsonl"), tmp_path / "out"
    assert run(model, rows, folder) == 0
    out, err = capsys.readouterr()
    assert "8 summaries." in out
    assert out.splitlines()[-1] == f"Written to {folder}: config.json, result.json"
    assert "warning: 1 of 8 documents are too long" in err
    assert "note: 1 of 8 documents are empty" in err
    kept = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    made = tiny.model("bart", "s+cepr:20", seed=1, shake=0.4)
    decoding = Decoding(max_length=8, batch=3)  # all else is the paper's
    wanted = [found.text for found in predictions(made, tiny.tokenizer(), [row["body"] for row in ROWS], decoding)]
    assert kept == [row | {"prediction": text} for row, text in zip(ROWS, wanted, strict=True)]
    result, config = (json.loads((folder / f"{name}.json").read_text()) for name in ("result", "config"))
    assert result["runs"]["predictions"]["ids"] == [row["id"] for row in ROWS]
    assert config["settings"]["decoding"] == decoding.to_dict()
    assert (config["settings"]["model"], config["settings"]["data"]) == (model, rows)
    columns = ("--text-column", "body", "--summary-column", "short", "--output", str(tmp_path / "file"))
    assert main(["eval", "summaries", "--predictions", str(folder / "predictions.jsonl"), *columns, *METRICS]) == 0
    assert json.loads((tmp_path / "file" / "result.json").read_text()) == result
    assert run(model, rows, folder, "--against", str(folder / "predictions.jsonl")) == 0
    compared = json.loads((folder / "result.json").read_text())["comparison"]["metrics"]
    assert {each["p"] for each in compared.values()} == {1.0}


def test_a_run_that_was_killed_goes_on(model: str, tmp_path: Path, capsys, monkeypatch) -> None:
    rows, folder = data(tmp_path / "test.jsonl"), tmp_path / "out"
    assert run(model, rows, folder) == 0
    file = folder / "predictions.jsonl"
    whole, result = file.read_bytes(), (folder / "result.json").read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]) + b'{"id": ')
    assert run(model, rows, folder) == 0
    assert file.read_bytes() == whole
    assert (folder / "result.json").read_bytes() == result
    capsys.readouterr()
    assert run(model, rows, folder, "--set", "seed=1") == 2
    assert "was written with other settings: seed was 0 and is 1 now" in capsys.readouterr().err
    assert run(model, data(tmp_path / "test.jsonl", ROWS[:-1]), folder) == 2
    assert "was written with other settings: input was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS + ROWS[:1], "ids that occur more than once: 0. Each must be unique."),
        ([{"text": "a", "short": "b"}], "test.jsonl: row 1: no column 'body'. There are: text, short"),
        ([{"body": "a"}], "test.jsonl: row 1: no column 'short'. There are: body"),
        ([{"body": 3, "short": "b"}], "test.jsonl: example 1: its source is 3, and a text is needed."),
    ],
)
def test_rows_are_refused_before_a_model_works(rows, message, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("unbottle.cli.generate.load_summarizer", lambda model, decoding: pytest.fail("loaded"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")  # there, and not looked into
    assert run(str(tmp_path / "model"), data(tmp_path / "test.jsonl", rows), tmp_path / "out") == 2
    assert message in capsys.readouterr().err


def test_other_refusals(model: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows = data(tmp_path / "test.jsonl")
    for args, said in (
        ((), "give either --predictions FILE or --model MODEL."),
        (("--model", model, "--predictions", rows), "give either --predictions FILE or --model MODEL."),
        (("--model", model, "--data", rows), "--model needs --data, the documents, and --output"),
        (("--model", model, "--output", str(tmp_path)), "--model needs --data, the documents, and --output"),
        (("--predictions", rows, "--set", "seed=1"), "--set is for --model"),
        (("--model", model, "--set", "heat=1"), "setting 'heat': unknown. Known: sampling, top_k, beams"),
        (("--model", model, "--set", "batch"), "--set 'batch': write KEY=VALUE"),
        (("--model", model, "--set", "batch=x"), "batch 'x': give a whole number."),
    ):
        assert main(["eval", "summaries", *args]) == 2, args
        assert said in capsys.readouterr().err
