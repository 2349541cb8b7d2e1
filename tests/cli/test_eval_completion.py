"""unbottle eval completion, from folder to folder and from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_causal
from byte_pairs import TEXT, byte_pairs

from unbottle.cli import eval_text
from unbottle.cli.main import main
from unbottle.eval.completion import FILE, CompletionConfig

SMALL = ("--prompts", "3,6", "--words", "4", "--draws", "1", "--samples", "2", "--tagger", "rules", "--part", "all")
SCORES = ["R1", "R1C", "R1P", "R1PC", "R2", "P Ratio", "CIDEr", "NIST"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    tiny_causal.saved(place / "cpr", "softmax+cpr:3,9+mi", byte_pairs())
    (place / "text.txt").write_text(TEXT * 20, encoding="utf-8")
    return place


def run(place: Path, *args: str) -> int:
    return main(["eval", "completion", str(place / "cpr"), "--data", str(place / "text.txt"), *args])


def test_the_defaults_are_those_of_the_paper(place: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(place, "--dry-run") == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    wanted = json.loads(json.dumps(CompletionConfig().to_dict()))
    shared = {name: value for name, value in wanted.items() if name in settings}
    assert shared == {name: settings[name] for name in shared}
    assert len(shared) == 7


def test_generated_and_scored_again(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(place, *SMALL, "--output", str(first)) == 0
    out = capsys.readouterr().out
    titles = [cell.strip() for cell in out.splitlines()[0].strip("|").split("|")]
    assert titles == ["words read", *SCORES]
    assert [line.split()[1] for line in out.splitlines()[2:5]] == ["all", "3", "6"]
    assert out.splitlines()[-1] == f"Written to {first}: config.json, result.json"
    assert "4 continuations of" in out
    result = json.loads((first / "result.json").read_text())
    assert list(result["scores"]["all"]) == SCORES
    assert main(["eval", "completion", "--from", str(first / FILE), "--tagger", "rules", "--output", str(second)]) == 0
    assert json.loads((second / "result.json").read_text()) == result
    assert capsys.readouterr().out.splitlines()[:5] == out.splitlines()[:5]


def test_a_part_is_spelled_from_its_tokens(place: Path, tmp_path: Path) -> None:
    """The train part is the beginning of the text, and the whole text is read as it is."""
    for part in ("train", "all"):
        assert run(place, *SMALL, "--samples", "9", "--part", part, "--output", str(tmp_path / part)) == 0
        rows = (tmp_path / part / FILE).read_text(encoding="utf-8").splitlines()[1:]
        assert all(json.loads(row)["prompt"] in TEXT * 20 for row in rows)
        assert len(rows) == 18


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["eval", "completion"], "nothing to complete. Give MODEL and --data PATH, or --from FILE."),
        (["eval", "completion", "gpt2", "--from", "x"], "give it without MODEL and --data"),
        (["eval", "completion", "gpt2", "--data", "x", "--prompts", "a"], "prompts 'a': expected numbers of words"),
        (["eval", "completion", "--from", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_refusals(args: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(args) == 2
    assert said in capsys.readouterr().err


def test_a_text_that_is_too_short(place: Path, capsys: pytest.CaptureFixture) -> None:
    (place / "short.txt").write_text("a king met Anna in Paris. " * 20)
    assert run(place, "--data", str(place / "short.txt")) == 2
    assert "no text of 170 words or more" in capsys.readouterr().err


def test_numbers() -> None:
    assert eval_text.numbers("20,70") == (20, 70)
