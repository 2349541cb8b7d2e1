"""unbottle compare: rows on a tiny model, the learning rate of the baseline, intervals, and several processes."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from math import exp
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_causal
import tiny_summaries

from unbottle.cli.main import main
from unbottle.eval import perplexity
from unbottle.experiments.compare import (
    METHODS,
    SOFTMAX,
    Comparison,
    comparison_experiment,
    select_rows,
)
from unbottle.experiments.corpora import read_windows, spread_windows
from unbottle.experiments.paired import differences_to
from unbottle.experiments.results import ResultRow
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.runner import run_experiment

BASELINE = SOFTMAX
ROWS = ("plain", BASELINE, "softmax+cpr:3,9+mi form=paper")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(0)
    names = ["Anna", "Boris", "Clara", "Daniel"]
    text = "\n".join(f"{draw.choice(names)} met {draw.choice(names)} and the old king." for _ in range(400))
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text(text)
    tiny_causal.saved(folder / "model", "plain", tiny_causal.tokenizer([text]))
    return folder


def compare(made: Path, place: Path, *more: str, rows: tuple[str, ...] = ROWS) -> int:
    given = ["--model", str(made / "model"), "--data", str(made / "text.txt"), "--length", "16", "--tagger", "rules"]
    sizes = ["--tokens", "320", "--valid-tokens", "64", "--test-tokens", "160", "--seeds", "2"]
    methods = [word for row in rows for word in ("--method", row)]
    folders = ["--work", str(place / "work"), "--output", str(place / "results")]
    return main(["compare", *given, *sizes, *methods, *folders, *more])


def read(place: Path, name: str) -> dict:
    return json.loads((place / "results" / name / "results.json").read_text())


@pytest.fixture(scope="module")
def whole(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    assert compare(made, place, "--lr", "1e-9", "--lr", "3e-3", "--gradients", "2") == 0
    return place


def test_rows_and_numbers(whole: Path, made: Path) -> None:
    data = read(whole, "text.txt-head")
    assert sorted((row["method"], row["seed"]) for row in data["rows"]) == sorted(
        (row, seed) for row in ROWS for seed in (0, 1)
    )
    by_row = {(row["method"], row["seed"]): row["found"] for row in data["rows"]}
    before, after = by_row["plain", 0], by_row[BASELINE, 0]
    assert after["perplexity"] < before["perplexity"]
    assert before["windows"] == by_row["plain", 1]["windows"]
    assert before["directions"] <= 16 < by_row[ROWS[2], 0]["directions"], "the hidden size"
    assert {"evenness", "cpu", "context", "proper noun", "gradient"} <= set(after)
    pair = data["together"][ROWS[2]]
    means = [np.mean([by_row[row, seed]["loss"] for seed in (0, 1)]) for row in (ROWS[2], BASELINE)]
    assert pair["difference"] == f"{exp(means[0] - means[1]) - 1:+.1%}"
    assert pair["low"] < means[0] - means[1] < pair["high"]
    assert str(made) not in json.dumps(data), "no folder of this machine"


def test_the_table_names_its_whole_command(whole: Path, made: Path) -> None:
    table = (whole / "results" / "text.txt-head" / "table.md").read_text()
    told = next(line for line in table.splitlines() if line.startswith("`unbottle compare")).split("`")[1]
    sizes = "--tokens 320 --valid-tokens 64 --test-tokens 160 --length 16 --lr 1e-09 --lr 0.003 --gradients 2"
    rows = f"--method plain --method {BASELINE} --method 'softmax+cpr:3,9+mi form=paper'"
    assert told == (
        f"unbottle compare --model model --data text.txt --train head {sizes} --tagger rules --seeds 2 {rows}"
    )


def test_before_is_the_plain_model(whole: Path, made: Path) -> None:
    """From stored states, by a fresh head, what the model itself says."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spelling = AutoTokenizer.from_pretrained(made / "model")
    windows = read_windows(str(made / "text.txt"), spelling, 16, {"test": 160})["test"]
    found = perplexity(AutoModelForCausalLM.from_pretrained(made / "model"), windows)
    data = read(whole, "text.txt-head")
    before = next(row["found"] for row in data["rows"] if row["method"] == "plain")
    assert before["loss"] == pytest.approx(found.loss, rel=1e-5)
    assert before["top"] == pytest.approx(found.groups["top"].perplexity, rel=1e-4)


@pytest.mark.parametrize("train", ["head", "all"])
def test_training_in_bfloat16_and_evaluation_in_float32(made: Path, tmp_path: Path, whole: Path, train: str) -> None:
    options = ("--lr", "3e-3", "--seeds", "1", "--bf16", "--train", train)
    assert compare(made, tmp_path, *options, rows=("plain", BASELINE)) == 0
    data = read(tmp_path, f"text.txt-{train}")
    assert data["settings"]["preset"]["rows"]["precision"] == "bfloat16"
    assert " --lr 0.003 --bf16 --tagger " in (tmp_path / "results" / f"text.txt-{train}" / "table.md").read_text()
    before, after = (row["found"]["loss"] for row in data["rows"])
    float32 = {row["method"]: row["found"]["loss"] for row in read(whole, "text.txt-head")["rows"] if not row["seed"]}
    assert before == pytest.approx(float32["plain"], rel=1e-6), "evaluation is the same"
    if train == "head":
        assert after != float32[BASELINE]
        assert after == pytest.approx(float32[BASELINE], rel=1e-2), "training is not"


def test_the_rate_that_suits_the_baseline(whole: Path) -> None:
    rates = read(whole, "text.txt-head-lr")
    losses = {row["method"]: row["found"]["loss"] for row in rates["rows"]}
    assert losses[f"{BASELINE} lr=0.003"] < losses[f"{BASELINE} lr=1e-09"]
    assert "learning rate 0.003" in (whole / "results" / "text.txt-head" / "table.md").read_text()
    assert not list((whole / "work").rglob("model.safetensors")), "models are not kept"


def test_a_row_with_rates_to_choose_from(made: Path, tmp_path: Path) -> None:
    """Each gets the one with which it predicts the validation part best, whatever suits the baseline."""
    rows = (BASELINE, "softmax lr=1e-9,3e-3,1e9", "softmax+c+mi lr=1e-9")
    assert compare(made, tmp_path, "--lr", "1e-3", "--seeds", "1", rows=rows) == 0
    losses = {row["method"]: row["found"].get("loss") for row in read(tmp_path, "text.txt-head-lr")["rows"]}
    assert [*losses] == ["softmax lr=1e-9", "softmax lr=3e-3", "softmax lr=1e9"]
    assert losses["softmax lr=1e9"] is None, "broken"
    assert losses["softmax lr=3e-3"] < losses["softmax lr=1e-9"]
    found = [row["method"] for row in read(tmp_path, "text.txt-head")["rows"]]
    assert found == [BASELINE, "softmax lr=3e-3", "softmax+c+mi lr=1e-9"]


def test_what_is_done_is_not_done_again(whole: Path, made: Path, monkeypatch) -> None:
    before = read(whole, "text.txt-head")
    monkeypatch.setattr(
        "unbottle.experiments.workspace.train_lm", lambda *args, **options: pytest.fail("trained again")
    )
    assert compare(made, whole, "--lr", "1e-9", "--lr", "3e-3", "--gradients", "2") == 0
    assert read(whole, "text.txt-head") == before


def test_other_settings_are_refused(whole: Path, made: Path, capsys) -> None:
    assert compare(made, whole, "--lr", "1e-9", "--lr", "3e-3", "--batch", "1") == 2
    assert "made with another preset or text" in capsys.readouterr().err


def test_a_training_that_breaks_is_a_result(made: Path, tmp_path: Path, capsys) -> None:
    given = ("--lr", "1e-3", "--lr", "1e9", "--seeds", "1")
    assert compare(made, tmp_path, *given, rows=(BASELINE, "softmax", "softmax lr=1e9")) == 0
    data = read(tmp_path, "text.txt-head")
    found = {row["method"]: row["found"] for row in data["rows"]}
    assert [*found["softmax lr=1e9"]] == ["broken"]
    assert " at step " in found["softmax lr=1e9"]["broken"]
    assert str(tmp_path) not in json.dumps(data), "no folder of this machine"
    assert "perplexity" in found["softmax"]
    assert data["together"]["softmax lr=1e9"]["difference"] == "broken"
    shown = capsys.readouterr().out
    assert "learning rate 0.001" in shown, "the one that did not break"
    assert next(line for line in shown.splitlines() if "(lr 1e9)" in line).split("|")[3].strip() == "broken"
    assert compare(made, tmp_path / "other", "--lr", "1e8", "--lr", "1e9", "--seeds", "1", rows=(BASELINE,)) == 2
    assert "training diverged with each. Give lower learning rates." in capsys.readouterr().err


@pytest.mark.parametrize("train", ["all", "lora"])
def test_models_that_may_adapt(train: str, made: Path, tmp_path: Path) -> None:
    given = ("--train", train, "--lr", "1e-3", "--seeds", "1", "--keep-models")
    assert compare(made, tmp_path, *given, rows=("plain", BASELINE)) == 0
    found = {row["method"]: row["found"]["perplexity"] for row in read(tmp_path, f"text.txt-{train}")["rows"]}
    assert found[BASELINE] < found["plain"]
    assert list((tmp_path / "work").rglob("model.safetensors"))


def test_two_at_once_share_the_rows(tmp_path: Path) -> None:
    """Each row is measured once; locks of files hold between threads that open them on their own."""
    rows = (BASELINE, "softmax", "softmax+c", "softmax+p", "mos")
    measured, both = [], threading.Barrier(2, timeout=10)

    def measure(workspace, row):
        if len(measured) < 2:
            both.wait()  # the first rows of both are measured at the same time, so they are different ones
        measured.append((row.method, row.seed))
        return {"perplexity": 1.0, "windows": [[1.0, 2], [3.0, 4]]}

    def work() -> None:
        workspace = SimpleNamespace(
            folder=tmp_path / "work", settings={"data": "text", "preset": {}}, progress=lambda *args: None
        )
        comparison = comparison_experiment(rows, "name", title="", command="it", lr=1, baseline=BASELINE)
        experiment = replace(comparison, measure=measure, plot=None)
        keys = experiment.rows(None, (0, 1), sizes=("m",))  # type: ignore[arg-type]
        run_experiment(experiment, workspace, tmp_path / "name", keys)  # type: ignore[arg-type]

    other = threading.Thread(target=work)
    other.start()
    work()
    other.join()
    assert sorted(measured) == sorted((row, seed) for row in rows for seed in (0, 1))
    assert len(json.loads((tmp_path / "name" / "results.json").read_text())["rows"]) == 10


def test_windows_from_all_over_a_text() -> None:
    windows = spread_windows(np.arange(103), 10, 35, "test")
    assert [int(windows[place]["input_ids"][0]) for place in range(len(windows))] == [0, 20, 50, 70]
    with pytest.raises(ValueError, match="the part 'test' of the text has 103 tokens, and 110 are wanted"):
        spread_windows(np.arange(103), 10, 101, "test")


def test_rows() -> None:
    assert select_rows(()) == [str(RowSpec.parse(method)) for method in METHODS]
    assert len(METHODS) == 15, "as the help says"
    assert select_rows(["softmax", "softmax"]) == [BASELINE, "softmax"], "something to compare with"


def test_only_seeds_that_both_have() -> None:
    windows = [[[10.0, 5], [20.0, 5]], [[11.0, 5], [21.0, 5]], [[0.0, 5], [0.0, 5]]]
    rows = [ResultRow(BASELINE, seed, "m", {"windows": windows[seed]}) for seed in (0, 1)]
    rows += [ResultRow("softmax", seed, "m", {"windows": windows[seed]}) for seed in (0, 2)]
    found = differences_to(BASELINE, rows)
    assert found["softmax"]["difference"] == "+0.0%"
    assert found["softmax"]["wins"] == "0 of 1"
    assert BASELINE not in found
    broken = [ResultRow("softmax", seed, "m", {"broken": "the loss exploded"}) for seed in (3, 4)]
    assert differences_to(BASELINE, rows + broken)["softmax"]["wins"] == "0 of 1 and 2 broken"


def test_paths_stay_here() -> None:
    told = Comparison.create("/somewhere/models/mine", "text", tagger="spacy:/somewhere/models/small").to_dict()
    assert told["backbones"] == {"mine": {"pretrained": "mine", "config": {}}}
    assert told["tagger"] == "spacy:small"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "mine").mkdir()
    for part, count in (("train", 24), ("valid", 4), ("test", 8)):
        rows = tiny_summaries.rows(count)
        (folder / "mine" / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tiny_summaries.model("t5", None).save_pretrained(folder / "model")
    tiny_summaries.tokenizer().save_pretrained(folder / "model")
    return folder


def compare_pairs(pairs: Path, place: Path, *more: str) -> int:
    given = ["--model", str(pairs / "model"), "--data", str(pairs / "mine"), "--train", "all", "--seeds", "1"]
    folders = ["--work", str(place / "work"), "--output", str(place / "results")]
    return main(["compare", *given, "--pairs", "8", "--test-pairs", "5", "--batch", "4", *folders, *more])


def test_summaries(pairs: Path, tmp_path: Path) -> None:
    rows = ("--method", "plain", "--method", "softmax", "--method", "softmax+ce lr=1e-3")
    assert compare_pairs(pairs, tmp_path, *rows) == 0
    data = read(tmp_path, "mine-all")
    found = {row["method"]: row["found"] for row in data["rows"]}
    assert [*found] == ["plain", "softmax", "softmax+ce lr=1e-3"]
    for each in found.values():
        assert len(each["windows"]) == each["summaries"] == 5
        assert sum(loss for loss, _ in each["windows"]) / each["tokens"] == pytest.approx(each["loss"], rel=1e-6)
        assert {"r1", "support", "repetition-3", "size", "time"} <= set(each)
    assert found["softmax"]["loss"] != found["plain"]["loss"]
    assert "difference" in data["together"]["softmax+ce lr=1e-3"]
    assert "softmax" not in data["together"]
    assert str(pairs) not in json.dumps(data), "no folder of this machine"
    assert len([*(tmp_path / "work" / "written").rglob("*.jsonl")]) == 3
    assert not list((tmp_path / "work").rglob("model.safetensors")), "models are not kept"


def test_learning_rate_of_summaries_by_validation(pairs: Path, tmp_path: Path) -> None:
    rows = ("--method", "softmax", "--method", "softmax+ce lr=1e-9,3e-3", "--lr", "1e-9", "--lr", "3e-3")
    numbers = ("--valid-pairs", "3", "--generate", "2")
    assert compare_pairs(pairs, tmp_path, *rows, *numbers) == 0
    rates = {row["method"]: row["found"] for row in read(tmp_path, "mine-all-lr")["rows"]}
    assert [*rates] == ["softmax lr=1e-09", "softmax lr=0.003", "softmax+ce lr=1e-9", "softmax+ce lr=3e-3"]
    for method in ("softmax", "softmax+ce"):
        low, high = (found["loss"] for name, found in rates.items() if name.startswith(f"{method} "))
        assert high < low
    assert all("r1" not in found and len(found["windows"]) == 3 for found in rates.values())
    found = {row["method"]: row["found"] for row in read(tmp_path, "mine-all")["rows"]}
    assert [*found] == ["softmax", "softmax+ce lr=3e-3"]
    assert all(each["summaries"] == 2 and len(each["windows"]) == 5 for each in found.values())
    table = (tmp_path / "results" / "mine-all" / "table.md").read_text()
    assert "after 8 pairs, learning rate 0.003" in table
    assert "--pairs 8 --valid-pairs 3 --test-pairs 5 --generate 2 --length 256 --lr 1e-09 --lr 0.003" in table
    assert not list((tmp_path / "work").rglob("model.safetensors")), "models are not kept"


def test_kinds_of_models(pairs: Path, made: Path, tmp_path: Path, capsys) -> None:
    given = ["--data", str(pairs / "mine"), "--pairs", "8", "--work", str(tmp_path / "work")]
    assert main(["compare", "--model", str(made / "model"), *given]) == 2
    assert "is not an encoder-decoder (gpt2). This takes one, such as T5 or BART." in capsys.readouterr().err
