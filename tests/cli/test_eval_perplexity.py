"""unbottle eval perplexity, from folder to folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_causal
import torch
from byte_pairs import TEXT, byte_pairs

from unbottle.cli.main import main
from unbottle.eval import Overlapping, perplexity

COMMAND = ("eval", "perplexity")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    for name, method in {"plain": "plain", "cpr": "softmax+cpr:3,9+mi"}.items():
        tiny_causal.saved(place / name, method, byte_pairs())
    tiny_causal.saved(place / "other", "plain", byte_pairs("other words " + TEXT[::-1]))
    (place / "text.txt").write_text(TEXT * 3, encoding="utf-8")
    (place / "rows.jsonl").write_text(json.dumps({"text": TEXT}) + "\n", encoding="utf-8")
    (place / "empty.txt").write_text("")
    (place / "binary.txt").write_bytes(bytes(range(256)))
    (place / "short.txt").write_text("the king")
    (place / "no_model").mkdir()
    return place


def run(place: Path, *args: str, data: str = "text.txt") -> int:
    words = [str(place / arg) if (place / arg).exists() else arg for arg in args]
    return main([*COMMAND, *words, "--data", str(place / data)])


def test_a_row_for_each_model(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    options = ("--part", "all", "--length", "20", "--k", "5", "--tagger", "rules", "--output", str(tmp_path))
    assert run(place, "plain", "cpr", *options) == 0
    out = capsys.readouterr().out
    measured, blank, *lines = out.splitlines()
    count = len(byte_pairs()(TEXT * 3).input_ids)
    assert (measured, blank) == (f"Measured: all of {place / 'text.txt'}: {count:,} tokens.", "")
    titles = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert titles == ["model", "tokens", "loss", "perplexity", "context", "top", "elsewhere", "proper noun", "other"]
    assert [line.split()[1] for line in lines[2:4]] == ["plain", "cpr"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert "Proper nouns by rules: capital letters" in out
    assert lines[-1] == f"Written to {tmp_path}: config.json, result.json"
    config, result = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("config", "result"))
    assert config["settings"]["stride"] == config["settings"]["length"] == 20
    found = result["models"]["plain"]
    ids = torch.tensor(byte_pairs()(TEXT * 3).input_ids)
    want = perplexity(tiny_causal.model("plain", len(byte_pairs())), Overlapping(ids, 20, 20), k=5)
    assert found["perplexity"] == pytest.approx(want.perplexity, rel=1e-5)
    assert found["groups"]["top"]["tokens"] == want.groups["top"].tokens
    assert len(found["windows"]) == len(want.windows)


def test_a_reference_makes_the_groups_the_same(place: Path, tmp_path: Path) -> None:
    options = ("--part", "all", "--length", "20", "--stride", "7", "--k", "5", "--tagger", "none")
    assert run(place, "plain", "cpr", *options, "--reference", "plain", "--output", str(tmp_path)) == 0
    first, second = json.loads((tmp_path / "result.json").read_text())["models"].values()
    tokens = [{name: group["tokens"] for name, group in found["groups"].items()} for found in (first, second)]
    assert tokens[0] == tokens[1]
    assert list(tokens[0]) == ["context", "top", "elsewhere"]
    assert first["loss"] != second["loss"]
    assert first["windowing"]["stride"] == 7
    assert first["top_of"] == second["top_of"] == "the reference model"


def test_a_text_shorter_than_a_window(place: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(place, "cpr", "--part", "all", data="short.txt") == 0
    assert "1 windows of" in capsys.readouterr().out


def test_what_was_measured(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """All of a text; the test part of what has parts; a part that is cut says of how much."""
    for part in ("train", "valid", "test"):
        (tmp_path / "parts").mkdir(exist_ok=True)
        (tmp_path / "parts" / f"{part}.txt").write_text(f"{TEXT} {part}" if part == "test" else TEXT * 2)
    whole, test = (len(byte_pairs()(text).input_ids) for text in (TEXT * 3, f"{TEXT} test"))
    for given, data, said in (
        ((), "text.txt", f"all of {place / 'text.txt'}: {whole:,} tokens."),
        ((), str(tmp_path / "parts"), f"the part 'test' of {tmp_path / 'parts'}: {test:,} tokens."),
        (("--part", "valid"), "text.txt", f"the part 'valid' of {place / 'text.txt'}, cut 96/2/2: "),
    ):
        assert run(place, "plain", *given, "--tagger", "none", data=data) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith(f"Measured: {said}")
        assert not given or first.endswith(f" of {whole:,} tokens. --part all takes all.")


def test_dry_run(place: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(place, "nowhere", "--dry-run", data="nothing.txt") == 0
    config = json.loads(capsys.readouterr().out)
    assert config["settings"]["part"] is None
    assert config["settings"]["stride"] == 200


@pytest.mark.parametrize(
    ("args", "data", "said"),
    [
        (("plain", "--part", "all"), "empty.txt", "no text"),
        (("plain",), "binary.txt", "binary file"),
        (("plain",), "nothing.txt", "no such file"),
        (("plain", "--column", "body"), "rows.jsonl", "no column 'body'. There are: text"),
        (("plain", "--part", "half"), "text.txt", "part 'half': unknown. Known: test, valid, train, all"),
        (("plain", "--part", "test"), "short.txt", "--part all takes all, and 2 are the least. Give more text."),
        (("plain", "--length", "300", "--part", "all"), "text.txt", "reads at most 256"),
        (("plain", "--stride", "0"), "text.txt", "stride 0"),
        (("plain", "--k", "0"), "text.txt", "k=0"),
        (("plain", "--tagger", "magic"), "text.txt", "tagger 'magic'"),
        (("plain", "other"), "text.txt", "another tokenizer"),
        (("plain", "--reference", "other"), "text.txt", "another tokenizer"),
        (("no_model",), "text.txt", "no config.json"),
        (("./nowhere",), "text.txt", "nowhere"),
    ],
)
def test_refusals(place: Path, args: tuple, data: str, said: str, capsys: pytest.CaptureFixture) -> None:
    assert run(place, *args, data=data) == 2
    err = capsys.readouterr().err.strip().splitlines()
    assert said in err[-1]
    assert err[-1].startswith("unbottle: error: ")
