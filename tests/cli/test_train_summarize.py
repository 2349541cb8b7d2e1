"""unbottle train summarize, from files to a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_summaries as tiny
from huggingface_hub import ModelCard
from transformers import AutoModelForSeq2SeqLM

from unbottle.cli.main import main
from unbottle.hf.pretrained import prefix_of

pytestmark = [  # what is told to people is no error
    pytest.mark.filterwarnings("default:.*left out:UserWarning"),
    pytest.mark.filterwarnings("default:.*were truncated:UserWarning"),
]
METHOD = "softmax+cepr:20"
QUICK = ("--source-length", "12", "--target-length", "8", "--max-steps", "2", "--lr", "1e-3", "--set", "device=cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plain model, a head on top of it, and pairs."""
    folder = tmp_path_factory.mktemp("base")
    for name, method in (("PLAIN", None), ("HEADED", METHOD)):
        tiny.model("t5", method).save_pretrained(folder / name)
        tiny.tokenizer().save_pretrained(folder / name)
    lines = [json.dumps({"body": row["document"], "short": row["summary"]}) for row in tiny.rows(60)]
    (folder / "DATA.jsonl").write_text("\n".join([*lines, '{"body": "", "short": "x"}']) + "\n")
    (folder / "FEW.jsonl").write_text("\n".join(lines[:9]) + "\n")
    return {path.stem: str(path) for path in folder.iterdir()}


def line(base: dict[str, str], *args: str) -> list[str]:
    return ["train", "summarize", *(base.get(arg, arg) for arg in args)]


COLUMNS = ("--text-column", "body", "--summary-column", "short")


def test_a_model_is_trained(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    given = ("--model", "PLAIN", "--method", METHOD, "--data", "DATA", *COLUMNS, "--prefix", "summarize : ", *QUICK)
    assert main(line(base, *given, "--output", str(tmp_path))) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == f"Written to {tmp_path}: config.json, result.json"
    assert "Validation: loss " in out
    assert "DATA.jsonl: 1 pair without a document or a summary left out." in err
    assert "of 58 documents are longer than 12 tokens and were truncated" in err
    result, config = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("result", "config"))
    assert result["steps"] == 2
    assert [step for step, _ in result["valid_perplexities"]] == [0, 2]
    wanted = {
        "learning_rate": 1e-3,
        "adam_epsilon": 1e-6,
        "warmup_steps": 1000,
        "batch_size": 8,
        "source_prefix": "summarize : ",
        "text_column": "body",
    }
    assert wanted.items() <= config["settings"].items()
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    assert str(model.head.config.method) == METHOD
    assert prefix_of(model) == "summarize : "
    card = ModelCard.load(tmp_path / "model" / "README.md")
    scores = [(score.task_type, score.metric_type, score.metric_value) for score in card.data.eval_results]
    assert scores == [("summarization", "loss", result["valid_losses"][-1][1])]
    assert main(line(base, *given, "--output", str(tmp_path))) == 0  # once more: nothing is left to do
    (tmp_path / "a.txt").write_text("the king met Anna")
    assert main(["summarize", str(tmp_path / "a.txt"), "--model", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    assert main(line(base, *given, "--lr", "0.002", "--output", str(tmp_path))) == 2
    assert "learning_rate was 0.001 and is 0.002 now" in capsys.readouterr().err


def test_from_nothing(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    config = '{"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}'
    given = ("--tokenizer", "PLAIN", "--data", "DATA", "--eval-data", "FEW", *COLUMNS, *QUICK)
    assert main(line(base, "--config", config, *given, "--output", str(tmp_path / "run"))) == 0
    capsys.readouterr()
    assert main(line(base, "--config", '{"model_type": "gpt2"}', *given, "--output", str(tmp_path / "x"))) == 2
    assert "an encoder-decoder is needed, and gpt2 is none" in capsys.readouterr().err


def test_a_hub_data_set_has_its_own_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    from unbottle.cli.train import pair_rows

    asked = []

    def load(*args, **options):
        asked.append((args[0], options["split"]))
        return tiny.rows(3).rename_column("document", "dialogue")

    monkeypatch.setattr("unbottle.data.text.load_dataset", load)
    run = {"data": "samsum", "eval_data": None, "text_column": None, "summary_column": None}
    train, valid = pair_rows(run)
    assert asked == [("knkarthick/samsum", "train"), ("knkarthick/samsum", "validation")]
    assert (len(train), len(valid)) == (3, 3)


def test_a_hub_data_set_with_one_split_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from unbottle.cli.train import pair_rows

    monkeypatch.setattr("unbottle.data.text.get_dataset_split_names", lambda name, config: ["train"])
    splits = {"train": tiny.rows(100)}
    monkeypatch.setattr("unbottle.data.text.load_dataset", lambda *args, **options: splits[options["split"]])
    run = {"data": "owner/pairs", "eval_data": None, "text_column": None, "summary_column": None}
    train, valid = pair_rows(run)
    assert (len(train), len(valid)) == (96, 2)


def test_dry_run(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    given = ("--model", "bart", "--preset", "paper-booksum-bart-large", "--set", "prefix=sum: ", "--batch", "3")
    assert main(line({}, *given, "--dry-run", "--output", str(tmp_path / "none"))) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    wanted = {"learning_rate": 1e-5, "num_train_epochs": 5.0, "batch_size": 3, "source_prefix": "sum: "}
    wanted |= {"model": "bart", "lr_scheduler_type": "linear"}
    assert wanted.items() <= settings.items()
    assert "window_length" not in settings
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give --model, to start from its weights, or --config"),
        (("--model", "PLAIN"), "give --data: cnn_dailymail, xsum, samsum, booksum-chapters, a file"),
        (("--model", "PLAIN", "--data", "none"), "none: no such file or folder. Known by name: cnn_dailymail"),
        (("--model", "PLAIN", "--data", "DATA"), "no column 'document'. There are: body, short."),
        (("--model", "PLAIN", "--data", "FEW", *COLUMNS), "9 pairs are too few to hold some out for validation"),
        (("--model", "PLAIN", "--data", "DATA", "--preset", "best"), "preset 'best': unknown. Known: paper, paper-b"),
        (("--model", "PLAIN", "--data", "DATA", "--set", "length=9"), "argument 'length': unknown."),
        (("--model", "HEADED", "--method", "ps", "--data", "DATA", "--eval-data", "FEW", *COLUMNS), "has the head"),
    ],
)
def test_refusals(args: tuple[str, ...], message: str, base, tmp_path: Path, capsys) -> None:
    assert main(line(base, *args, "--output", str(tmp_path))) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("unbottle: error: ")
    assert message in err
