"""unbottle report: one page of results of any kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_causal
from self_contained import read_page

from unbottle.cli.main import main

RESULTS = Path(__file__).parents[2] / "results"
TEXT = "The king and the queen met the man and the woman. Anna said that the king should go to Paris.\n" * 20


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Perplexity, next words and summaries, each by its own command."""
    place = tmp_path_factory.mktemp("runs")
    spelling = tiny_causal.tokenizer([TEXT])
    models = [tiny_causal.saved(place / name, name, spelling) for name in ("plain", "softmax+cpr:3,9+mi")]
    (place / "text.txt").write_text(TEXT)
    rows = [
        {"id": str(number), "document": TEXT[:200], "summary": "Anna met the king", "prediction": "the king met Anna"}
        for number in range(4)
    ]
    (place / "made.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = ("--data", str(place / "text.txt"), "--part", "all", "--length", "32", "--tagger", "none")
    lines = {
        "perplexity": ("eval", "perplexity", *models, *text),
        "probe": ("eval", "probe", *models, "--shuffles", "2"),
        "summaries": ("eval", "summaries", "--predictions", str(place / "made.jsonl"), "--metrics", "r1,length"),
    }
    for name, words in lines.items():
        assert main([*words, "--output", str(place / "runs" / name)]) == 0
    return place / "runs"


def test_one_page_of_everything(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A folder of runs, the paper's experiments and benchmarks that the repository keeps: none is left out."""
    page = tmp_path / "page.html"
    kept = [folder for kind in ("cpu", "bench") for folder in (RESULTS / kind).iterdir() if folder.is_dir()]
    assert main(["report", str(runs), str(RESULTS / "cpu"), str(RESULTS / "bench"), "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert {"figure", "table", "img"} <= {*read_page(text).tags}
    found = json.loads((runs / "perplexity" / "result.json").read_text())["models"]["plain"]
    assert f"{found['perplexity']:.2f}" in text
    assert "Does the order of a list matter?" in text
    assert "<td>r1</td>" in text
    assert "paper: " in text
    assert all(f"{folder}: " in text for folder in kept)
    assert capsys.readouterr().out.startswith(f"Written to {page}: {len(kept) + 3} runs, ")


def test_one_run(runs: Path, tmp_path: Path) -> None:
    assert (
        main(["report", str(runs / "probe"), "--output", str(tmp_path / "page.html"), "--title", "Mine & yours"]) == 0
    )
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Mine &amp; yours</h1>" in text
    assert "plates, keys, scissors, toys, and balloons" in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "no such folder. Give folders that --output named: demo, eval perplexity"),
        ({}, "no results in it or in its folders"),
        ({"config.json": "{", "result.json": "{}"}, "config.json is not valid JSON"),
        (
            {"config.json": '{"command": "train lm"}', "result.json": "{}"},
            "results of 'train lm' have no page. Known: demo, eval perplexity",
        ),
        (
            {"config.json": '{"command": "demo"}', "result.json": "{}"},
            "its results are not as this version writes them",
        ),
        ({"bench.json": "{}"}, "bench.md"),
    ],
)
def test_refusals(files: dict[str, str] | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "run"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    assert main(["report", str(folder), "--output", str(tmp_path / "page.html")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "nowhere", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["runs"] == ["nowhere"]
    assert not list(tmp_path.iterdir())
