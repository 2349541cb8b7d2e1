"""unbottle train lm, from files to a model."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from tiny_causal import saved, tokenizer
from transformers import AutoModelForCausalLM

import unbottle
from unbottle.cli.main import main
from unbottle.train.run import form_of

TEXT = "The king and the queen met the man and the woman. Anna said that the king should go to Paris.\n" * 60
METHOD = "softmax+cpr:3,9+mi"
QUICK = ("--length", "16", "--max-steps", "4", "--lr", "1e-3", "--set", "device=cpu", "--set", "log_every=1")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plain model, one with a head, and a text."""
    folder = tmp_path_factory.mktemp("base")
    spelling = tokenizer([TEXT])
    (folder / "text.txt").write_text(TEXT)
    plain, headed = saved(folder / "plain", "plain", spelling), saved(folder / "headed", METHOD, spelling)
    return {"plain": plain, "headed": headed, "text": str(folder / "text.txt")}


def refused(capsys: pytest.CaptureFixture, *args: str) -> str:
    assert main(["train", "lm", *args]) == 2
    err = capsys.readouterr().err
    assert err.startswith("unbottle: error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("train", ["all", "head", "lora"])
def test_a_model_is_trained(train: str, base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    line = ["train", "lm", "--model", base["plain"], "--method", METHOD, "--data", base["text"], "--train", train]
    output = tmp_path / "run"
    assert main([*line, *QUICK, "--output", str(output)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == f"Written to {output}: config.json, result.json"
    assert "Validation: loss " in out
    assert "100%" in err
    assert "loss" in err
    assert "tokens/s" in err
    result, config = (json.loads((output / f"{name}.json").read_text()) for name in ("result", "config"))
    assert result["steps"] == 4
    assert [step for step, _ in result["losses"]] == [1, 2, 3, 4]
    assert [step for step, _ in result["valid_perplexities"]] == [0, 4]
    assert config["settings"]["train_mode"] == train
    assert config["settings"]["learning_rate"] == 1e-3
    assert config["settings"]["adam_epsilon"] == 1e-6
    model = AutoModelForCausalLM.from_pretrained(output / "model")
    assert str(model.head.config.method) == METHOD
    assert model.head.config.form == ("scaled" if train == "all" else "balanced")
    assert (output / "model" / "tokenizer.json").is_file()
    assert (output / "adapter").is_dir() == (train == "lora")
    card = ModelCard.load(output / "model" / "README.md")
    scores = {score.metric_type: score.metric_value for score in card.data.eval_results}
    assert scores == {"loss": result["valid_losses"][-1][1], "perplexity": result["valid_perplexities"][-1][1]}
    rows = card.text.splitlines()
    assert {"| learning_rate | 0.001 |", "| steps | 4 |", f"| tokens | {result['tokens']:,} |"} <= {*rows}
    assert str(tmp_path) not in card.content
    assert str(Path(base["text"]).parent) not in card.content
    assert main([*line, *QUICK, "--output", str(output)]) == 0  # once more: nothing is left to do
    capsys.readouterr()
    assert "learning_rate was 0.001 and is 0.002 now" in refused(
        capsys, *line[2:], *QUICK, "--lr", "0.002", "--output", str(output)
    )


def test_the_form_that_is_asked_for(base: dict[str, str], tmp_path: Path) -> None:
    line = ["train", "lm", "--model", base["plain"], "--method", METHOD, "--data", base["text"], "--train", "head"]
    assert main([*line, *QUICK, "--form", "separate", "--output", str(tmp_path / "old")]) == 0
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "old" / "model").head.config.form == "paper", "an old name"
    assert main([*line, *QUICK, "--preset", "paper", "--output", str(tmp_path / "paper")]) == 0
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "paper" / "model").head.config.form == "paper"


def test_a_head_goes_on(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = ("--model", base["headed"], "--data", base["text"], *QUICK, "--output", str(tmp_path))
    assert "has the head 'softmax+cpr:3,9+mi' already, not 'softmax+c'" in refused(
        capsys, *run, "--method", "softmax+c"
    )
    assert "has a head in the form 'scaled' already, not 'paper'" in refused(capsys, *run, "--form", "paper")
    assert main(["train", "lm", *run, "--eval-data", base["text"]]) == 0


def test_the_form_of_the_projections(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = ("--model", base["plain"], "--data", base["text"], "--method", "softmax+c", *QUICK, "--output", str(tmp_path))
    assert "form 'sum': expected one of scaled, balanced, paper" in refused(capsys, *run, "--form", "sum")
    assert main(["train", "lm", *run, "--form", "residual"]) == 0
    assert unbottle.load(tmp_path / "model").head.config.form == "residual"
    capsys.readouterr()
    assert main(["train", "lm", *run]) == 0, "a run keeps its form"
    assert "other settings" in refused(capsys, *run, "--form", "scaled")


def test_an_old_run_keeps_its_form(base: dict[str, str], tmp_path: Path) -> None:
    """Runs of the first version have the paper's form, and say nothing of it; or the old name of another."""
    run = ("--model", base["plain"], "--data", base["text"], "--method", "softmax+c", *QUICK, "--output", str(tmp_path))
    for form, named in (("paper", None), ("residual", "difference")):
        assert main(["train", "lm", *run, "--form", form]) == 0
        record = json.loads((tmp_path / "run.json").read_text())
        assert record["model"]["form"] == named
        assert form_of(tmp_path) == form
        shutil.rmtree(tmp_path)
    assert form_of(tmp_path) is None


def test_from_nothing(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    config = '{"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}'
    (tmp_path / "config.json").write_text(config)
    losses = []
    for number, given in enumerate((config, str(tmp_path / "config.json"))):
        output = tmp_path / str(number)
        run = ("--config", given, "--tokenizer", base["plain"], "--data", base["text"], "--output", str(output))
        assert main(["train", "lm", *run, *QUICK]) == 0
        losses.append(json.loads((output / "result.json").read_text())["losses"])
    assert losses[0] == losses[1]
    capsys.readouterr()
    text = ("--data", base["text"], "--output", str(tmp_path / "x"))
    assert "--config needs --tokenizer" in refused(capsys, "--config", config, *text)
    spelled = ("--tokenizer", base["plain"], *text)
    assert "--config: not valid JSON" in refused(capsys, "--config", "{", *spelled)
    assert "expected an object with a model_type" in refused(capsys, "--config", "{}", *spelled)
    small = '{"model_type": "gpt2", "vocab_size": 9}'
    assert "vocab_size 9, and the tokenizer has 290 tokens" in refused(capsys, "--config", small, *spelled)


def test_a_stream(base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with gzip.open(tmp_path / "text.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"body": line}) + "\n" for line in TEXT.splitlines())
    run = ["--model", base["plain"], "--data", str(tmp_path / "text.jsonl.gz"), "--text-column", "body", "--streaming"]
    assert main(["train", "lm", *run, *QUICK, "--output", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert "give max_steps instead of epochs" in refused(capsys, *run, "--output", str(tmp_path / "other"))


def test_dry_run_and_where_settings_come_from(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "all.yaml").write_text("model: gpt2\npreset: head\nlr: 1e-4\nbatch: 3\nreport_to: [wandb]\n")
    line = ("--config-file", str(tmp_path / "all.yaml"), "--batch", "5", "--set", "seed=7", "--set", "shuffle=no")
    assert main(["train", "lm", *line, "--dry-run", "--output", str(tmp_path / "nothing")]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = {"model": "gpt2", "train_mode": "head", "learning_rate": 1e-4, "batch_size": 5, "seed": 7}
    wanted |= {"train_sampling_strategy": "sequential", "max_grad_norm": 1.0}
    assert wanted.items() <= found["settings"].items()
    assert found["settings"]["report_to"] == ["wandb"]
    assert "torch" in found["versions"]
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("train", ["all", "head"])
def test_a_dry_run_says_what_it_would_take(train: str, base: dict[str, str], tmp_path: Path, capsys) -> None:
    line = ["train", "lm", "--model", base["plain"], "--method", METHOD, "--data", base["text"], "--train", train]
    line += ["--length", "16", "--set", "device=cpu", "--set", "accumulate=2", "--epochs", "3"]
    output = tmp_path / "run"
    assert main([*line, "--dry-run", "--output", str(output)]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert not output.exists()
    assert estimate["seconds"] >= 0
    assert main([*line, "--output", str(output)]) == 0
    assert json.loads((output / "result.json").read_text())["steps"] == estimate["steps"]
    weights = (output / "model" / "model.safetensors").stat().st_size
    assert estimate["disk_bytes"]["model"] == pytest.approx(weights, rel=0.1)
    states = sum(path.stat().st_size for path in (output / "states").rglob("*.safetensors"))
    assert estimate["disk_bytes"].get("hidden states", 0) == pytest.approx(states, rel=0.1)


def test_a_dry_run_looks_for_model_and_data(base: dict[str, str], tmp_path: Path, capsys) -> None:
    for given in (("--model", "./none", "--data", base["text"]), ("--model", base["plain"], "--data", "none.txt")):
        assert "none" in refused(capsys, *given, "--dry-run", "--output", str(tmp_path / "none"))


def test_parts_of_its_own(base: dict[str, str], tmp_path: Path) -> None:
    """A folder with a validation file is validated with it, and nothing of its test file is learnt."""
    from unbottle.cli.train import windows

    for part, text in {"train": TEXT, "valid": "Anna said", "test": "zzz zzz"}.items():
        (tmp_path / f"{part}.txt").write_text(text)
    spelling = tokenizer([TEXT])
    run = {"text_column": "text", "data": str(tmp_path), "streaming": False}
    train, valid = windows(run, spelling, 16)
    assert spelling.decode(valid.tokens) == "Anna said"
    assert "zzz" not in spelling.decode(train.tokens)


def test_the_example_file_is_understood(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check_model", "check_place"):
        monkeypatch.setattr(f"unbottle.cli.train_options.{name}", lambda path: None)
    monkeypatch.setattr("unbottle.cli.train.load_lm", lambda options, args: (None, None, None, None))
    monkeypatch.setattr("unbottle.train.estimate.estimate", lambda *loaded: {})
    example = Path(__file__).parents[2] / "examples" / "07_train_lm.yaml"
    assert main(["train", "lm", "--config-file", str(example), "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["bf16"] is True


def test_a_file_of_settings_with_an_alias_is_refused(tmp_path, capsys) -> None:
    """A few lines of aliases may stand for more values than any memory holds."""
    (tmp_path / "alias.yaml").write_text("batch: &size 4\naccumulate: *size\n", encoding="utf-8")
    said = refused(capsys, "--config-file", str(tmp_path / "alias.yaml"), "--dry-run")
    assert "alias.yaml: not valid YAML (the alias *size: write the value itself" in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give --model, to start from its weights, or --config"),
        (("--model", "MODEL"), "give --data"),
        (("--model", "MODEL", "--data", "none.txt"), "none.txt: no such file or folder"),
        (("--model", "MODEL", "--data", "TEXT", "--preset", "best"), "preset 'best': unknown. Known: paper,"),
        (("--model", "MODEL", "--data", "TEXT", "--set", "sed=9"), "argument 'sed': unknown. Did you mean 'seed'?"),
        (("--model", "MODEL", "--data", "TEXT", "--set", "speed"), "--set 'speed': write KEY=VALUE"),
        (("--model", "MODEL", "--data", "TEXT", "--set", "clip=high"), "clip 'high': give a number."),
        (("--model", "MODEL", "--data", "TEXT", "--set", "batch=1.5"), "batch '1.5': give a whole number."),
        (("--model", "MODEL", "--data", "TEXT", "--set", "lr=none"), "lr: it cannot be none"),
        (("--model", "MODEL", "--data", "TEXT", "--set", "shuffle=2"), "shuffle '2': give true or false."),
        (("--model", "MODEL", "--data", "TEXT", "--length", "9999"), "less than a window of 9999 tokens"),
        (("--model", "MODEL", "--data", "TEXT", "--method", "softmax+x"), "unknown part 'x'"),
        (("--model", "MODEL", "--data", "TEXT", "--tokenizer", "t"), "--tokenizer is for --config"),
        (("--model", "MODEL", "--data", "TEXT", "--config-file", "TEXT"), "expected lines of name: value"),
    ],
)
def test_refusals(
    args: tuple[str, ...], message: str, base: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = {"MODEL": base["plain"], "TEXT": base["text"]}
    assert message in refused(capsys, *(names.get(arg, arg) for arg in args), "--output", str(tmp_path))


def test_a_loss_that_is_no_number_ends_in_one_sentence(base, tmp_path, capsys) -> None:
    model = AutoModelForCausalLM.from_pretrained(base["plain"])
    with torch.no_grad():
        model.transformer.ln_f.bias.fill_(float("nan"))
    model.save_pretrained(tmp_path / "broken")
    tokenizer([TEXT]).save_pretrained(tmp_path / "broken")
    line = ("--model", str(tmp_path / "broken"), "--data", base["text"], *QUICK, "--output", str(tmp_path / "run"))
    assert main(["train", "lm", *line]) == 2
    assert "loss is NaN at step 1, on rows" in capsys.readouterr().err
