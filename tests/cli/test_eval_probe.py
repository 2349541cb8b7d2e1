"""unbottle eval probe: a table of next words, a table of order bias."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_causal

from unbottle.cli.main import main
from unbottle.eval.next_words import PROMPTS

TEA = "We have [tea], [milk] and [juice], and I take"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    spelling = tiny_causal.tokenizer([str(prompt) for prompt in PROMPTS])
    place = tmp_path_factory.mktemp("models")
    methods = {"plain": "plain", "cpr": "softmax+cpr:3,9+mi"}
    return [tiny_causal.saved(place / name, method, spelling) for name, method in methods.items()]


def test_the_prompts_of_the_paper(folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    output = tmp_path / "run"
    assert main(["eval", "probe", *folders, "--shuffles", "3", "--k", "2", "--output", str(output)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == str(PROMPTS[0])
    assert lines[1].split() == ["plain", "(softmax)", "cpr", "(softmax+cpr:3,9+mi)"]
    title = next(number for number, line in enumerate(lines) if line.startswith("options"))
    assert lines[title].split("  ")[-1] == "winner changes"
    assert [line.split("  ")[0] for line in lines[title + 1 : title + 3]] == [", ".join(PROMPTS[0].options)] * 2
    assert lines[-1] == f"Written to {output}: config.json, result.json"
    result = json.loads((output / "result.json").read_text())
    assert len(result["found"]) == 8
    assert [row["orders"] for row in result["order_bias"]["cpr"]["rows"]] == [3, 3, 3, 2]
    config = json.loads((output / "config.json").read_text())
    assert config["settings"]["prompts"] == [prompt.marked() for prompt in PROMPTS]


def test_prompts_of_ones_own(folders: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "probe", folders[1], "--prompt", TEA, "--prompt", "No list here"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("We have tea, milk and juice, and I take\n")
    assert "\nNo list here\n" in out
    assert out.splitlines()[-1].startswith("tea, milk, juice  cpr    ")


def test_options_in_two_orders_as_one_picture(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "probe.png"
    assert main(["eval", "probe", *folders, "--shuffles", "2", "--picture", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"Picture: {path}" in capsys.readouterr().out


def test_a_prompt_without_a_list_has_no_second_table(folders: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "probe", folders[0], "--prompt", "No list here"]) == 0
    assert "winner" not in capsys.readouterr().out


def test_dry_run(capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "probe", "nowhere", "--prompt", TEA, "--dry-run"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings == {"models": ["nowhere"], "prompts": [TEA], "k": 5, "shuffles": 20, "seed": 0}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--prompt", "[a] or [a]"), "has the same option twice"),
        (("--k", "0"), "k=0: expected 1 to"),
        (("--shuffles", "0"), "shuffles=0"),
    ],
)
def test_refusals(args: tuple[str, ...], message: str, folders: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "probe", folders[0], *args]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("unbottle: error:")]
    assert len(errors) == 1
    assert message in errors[0]
