"""unbottle eval analogy, from folder to folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_causal
from transformers import T5Config, T5ForConditionalGeneration

from unbottle.cli import eval_tasks
from unbottle.cli.main import main
from unbottle.data.analogy import KINDS, PARTS, RELATIONS, SIZE, analogies, training_text
from unbottle.tables import Table

FEW = ("--relation", "family", "--size", "4")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    spelling = tiny_causal.tokenizer([item.prompt for item in analogies(relations=["family"], size=20)])
    place = tmp_path_factory.mktemp("models")
    methods = {"plain": "plain", "cpr": "softmax+cpr:3,9+mi"}
    return [tiny_causal.saved(place / name, method, spelling) for name, method in methods.items()]


def test_the_help_names_what_there_is(capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", "analogy", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(", ".join(names) in out for names in (KINDS, RELATIONS, PARTS))
    assert str(SIZE) in out


def test_models_with_and_without_a_head(folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    output = tmp_path / "run"
    assert main(["eval", "analogy", *folders, *FEW, "--output", str(output)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:5] == ["model", "kind", "relation", "contexts", "perplexity"]
    assert [line.split()[0] for line in out[1:11]] == ["plain"] * 5 + ["cpr"] * 5
    assert out[-1] == f"Written to {output}: config.json, result.json"
    config, result = (json.loads((output / f"{name}.json").read_text()) for name in ("config", "result"))
    assert config["settings"]["relation"] == ["family"]
    assert config["settings"]["seed"] == 0
    assert {"python", "torch", "transformers", "unbottle"} <= set(config["versions"])
    rows = result["models"]["cpr"]["rows"]
    assert [(row["kind"], row["relation"]) for row in rows[:2]] == [("diagonal", "family"), ("edge", "family")]
    assert rows[-1]["items"] == 8
    assert rows != result["models"]["plain"]["rows"]
    assert sorted(path.name for path in output.iterdir()) == ["config.json", "result.json"]


def test_contexts_and_training_text_are_written_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    contexts, texts = tmp_path / "new" / "contexts.jsonl", tmp_path / "texts.txt"
    assert main(["eval", "analogy", *FEW, "--write", str(contexts), "--training-text", str(texts)]) == 0
    items = analogies(relations=["family"], parts=["test"], size=4)
    found = [json.loads(line) for line in contexts.read_text(encoding="utf-8").splitlines()]
    assert found == json.loads(json.dumps([item.to_dict() for item in items]))
    wanted = training_text(analogies(relations=["family"], parts=["train"], size=4))
    assert texts.read_text(encoding="utf-8").splitlines() == wanted
    assert "8 contexts (test)" in capsys.readouterr().out


def test_huge_perplexities_fit_in_a_column() -> None:
    assert [eval_tasks.wide_number(value) for value in (2.0, 2e9, float("inf"))] == ["2.000", "2.00e+09", "inf"]
    assert Table(("a", "b"), [("x", "2.000"), ("yy", "2.00e+09")]).text().splitlines() == [
        "a          b",
        "x      2.000",
        "yy  2.00e+09",
    ]


def test_dry_run_prints_the_config_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    output = tmp_path / "run"
    assert main(["eval", "analogy", "nowhere", "--kind", "edge", "--output", str(output), "--dry-run"]) == 0
    config = json.loads(capsys.readouterr().out)
    assert config["command"] == "eval analogy"
    assert config["settings"]["models"] == ["nowhere"]
    assert config["settings"]["kind"] == ["edge"]
    assert not output.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no model to evaluate"),
        (("MODEL", "--kind", "side"), "kind 'side' is unknown"),
        (("MODEL", "--part", "dev"), "part 'dev' is unknown"),
        (("MODEL", "--pairs", "nowhere.txt"), "nowhere.txt"),
        (("MODEL", "--size", "3"), "size=3"),
        (("MODEL", "--batch", "0"), "batch=0"),
        (("EMPTY",), "has no config.json"),
        (("./nowhere",), "model './nowhere' has no config.json"),
        (("T5",), "is an encoder-decoder (t5)"),
        (("BARE",), "has no tokenizer beside it"),
        (("WIDE",), "its tokenizer has"),
    ],
)
def test_refusals_in_one_line(
    args: tuple[str, ...], message: str, folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    made = {"MODEL": folders[0], **{name: str(tmp_path / name) for name in ("EMPTY", "T5", "BARE", "WIDE")}}
    (tmp_path / "EMPTY").mkdir()
    if "T5" in args:
        T5ForConditionalGeneration(
            T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
        ).save_pretrained(made["T5"])
    if "BARE" in args:
        tiny_causal.model("plain").save_pretrained(made["BARE"])
    if "WIDE" in args:
        tiny_causal.model("plain", 100).save_pretrained(made["WIDE"])
        tiny_causal.tokenizer(["some text"]).save_pretrained(made["WIDE"])
    capsys.readouterr()
    assert main(["eval", "analogy", *(made.get(arg, arg) for arg in args), "--relation", "family"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("unbottle: error:")]
    assert len(errors) == 1
    assert message in errors[0]
