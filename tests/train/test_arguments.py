"""Training arguments: those of transformers, everywhere, and a few of ours."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
import tiny_training as tiny
import torch
import transformers
from tiny_causal import saved, tokenizer
from transformers import HfArgumentParser, TrainingArguments

from unbottle.cli.main import main
from unbottle.train import LMTrainingArguments, Settings, SummarizeSettings, SummarizeTrainingArguments, train_lm
from unbottle.train.arguments import NOT_SUPPORTED
from unbottle.train.presets import SHORT_NAMES, known_arguments

SCRIPT = Path(__file__).parents[2] / "scripts" / "training_arguments.py"
PINNED = re.search(r"^transformers==(\S+)$", (SCRIPT.parents[1] / "constraints.txt").read_text("utf-8"), re.MULTILINE)
listed = pytest.mark.skipif(
    PINNED is None or PINNED[1] != transformers.__version__, reason="options are those of the pinned transformers"
)
TEXT = "The king and the queen met the man and the woman. Anna said that the king should go to Paris.\n" * 60


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("base")
    (folder / "text.txt").write_text(TEXT)
    model = saved(folder / "plain", "plain", tokenizer([TEXT]))
    return ("train", "lm", "--model", model, "--data", str(folder / "text.txt"), "--length", "16", "--max_steps", "4")


def settings_of(capsys: pytest.CaptureFixture, *line: str, task: str = "lm") -> dict:
    assert main(["train", task, *line, "--dry-run"]) == 0
    return json.loads(capsys.readouterr().out)["settings"]


@listed
def test_the_file_for_the_command_line_is_up_to_date() -> None:
    """python scripts/training_arguments.py"""
    script = runpy.run_path(str(SCRIPT))
    assert json.loads(script["FILE"].read_text(encoding="utf-8")) == json.loads(script["text"]())


@listed
def test_every_argument_of_the_trainer_is_an_option(capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "lm", "--help-all"]) == 0
    shown = capsys.readouterr().out
    left_out = {"parallelism_config", "local_rank", "do_train", "do_eval", "do_predict", *NOT_SUPPORTED}
    for field in fields(TrainingArguments):
        assert not field.init or field.name in left_out or f"--{field.name}" in shown, field.name
    assert main(["train", "lm", "--help"]) == 0
    short = capsys.readouterr().out
    for name in ("--lr, --learning_rate", "--per_device_train_batch_size", "--gradient_accumulation_steps", "--bf16"):
        assert name in short
    assert "--ddp_bucket_cap_mb" not in short
    assert "\nOptimizer:\n" in short


def test_settings_with_short_names_have_the_same_defaults(tmp_path: Path) -> None:
    for short, full in ((Settings, LMTrainingArguments), (SummarizeSettings, SummarizeTrainingArguments)):
        assert short(output=str(tmp_path)).arguments().to_dict() == full(output_dir=str(tmp_path)).to_dict()
    assert set(SHORT_NAMES.values()) <= {*known_arguments("lm"), *known_arguments("summarize")}


def test_hf_argument_parser_knows_them(tmp_path: Path) -> None:
    line = ["--output_dir", str(tmp_path), "--learning_rate", "1e-3", "--window_length", "7", "--use_cpu", "--bf16"]
    (args,) = HfArgumentParser(LMTrainingArguments).parse_args_into_dataclasses(line)
    assert (args.learning_rate, args.window_length, args.bf16, args.batch_size) == (1e-3, 7, True, 4)
    assert args.per_device_train_batch_size == args.per_device_eval_batch_size == 4


def test_spellings(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    """Underscores or hyphens, short names, flags with and without a value, files: all the same."""
    (tmp_path / "a.yaml").write_text(
        "learning_rate: 1e-3\nbf16: true\nbatch_size: 8\noptim: sgd\nlr-scheduler-kwargs: {num_cycles: 2}\n"
    )
    lines = [
        '--learning_rate 1e-3 --bf16 --batch_size 8 --optim sgd --lr_scheduler_kwargs {"num_cycles":2}',
        '--learning-rate=1e-3 --bf16 True --batch 8 --set optim=sgd --lr-scheduler-kwargs {"num_cycles":2}',
        "--lr 1e-3 --set precision=bfloat16 --no_bf16 --bf16=true --set batch=8 --optim=sgd",
        f"--config-file {tmp_path / 'a.yaml'}",
    ]
    for line in lines:
        settings = settings_of(capsys, *line.split())
        wanted = {"learning_rate": 1e-3, "bf16": True, "batch_size": 8, "optim": "sgd"}
        assert wanted.items() <= settings.items(), line
    assert settings["lr_scheduler_kwargs"] == {"num_cycles": 2}
    assert settings_of(capsys, "--bf16", "false")["bf16"] is False
    assert settings_of(capsys, "--no_average_tokens_across_devices")["average_tokens_across_devices"] is False
    assert settings_of(capsys, "--report_to", "wandb,trackio")["report_to"] == ["wandb", "trackio"]
    assert settings_of(capsys, "--lr", "1e-2", task="summarize")["lr_scheduler_type"] == "linear"


def test_arguments_of_the_trainer_do_what_they_do(base: tuple[str, ...], tmp_path: Path) -> None:
    line = "--optim adafactor --lr_scheduler_type cosine --gradient_checkpointing --bf16 --use_cpu --lr 1e-2"
    more = "--save_strategy epoch --logging_steps 1 --warmup_steps 0.5 --adam_beta2 0.9 --report_to none"
    assert main([*base, *line.split(), *more.split(), "--output_dir", str(tmp_path)]) == 0
    state = json.loads((tmp_path / "checkpoints" / "checkpoint-4" / "trainer_state.json").read_text())
    rates = [entry["learning_rate"] for entry in state["log_history"] if "learning_rate" in entry]
    assert rates[0] < rates[2], "half of the steps are warm-up"
    groups = json.loads((tmp_path / "checkpoints" / "checkpoint-4" / "optimizer.json").read_text())
    assert "scale_parameter" in json.dumps(groups), "Adafactor's"
    assert not (tmp_path / "logs").exists()
    record = json.loads((tmp_path / "run.json").read_text())["settings"]
    assert (record["optim"], record["lr_scheduler_type"], record["bf16"]) == ("adafactor", "cosine", True)


@pytest.mark.parametrize("train", ["head", "lora"])
def test_gradient_checkpointing(train: str, tmp_path: Path) -> None:
    """The weights are those without it."""
    models = []
    for checkpointing in (False, True):
        models.append(tiny.model(dropout=0.0))
        args = tiny.settings(tmp_path / str(checkpointing), train=train, max_steps=2).arguments()
        args.gradient_checkpointing = checkpointing
        train_lm(models[-1], tiny.windows(), None, args)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_best_model_is_loaded_at_the_end(tmp_path: Path) -> None:
    """A learning rate that is far too large after its warm-up: the first evaluation is the best, and is kept."""
    options = {"learning_rate": 0.5, "warmup_steps": 6, "max_steps": 8, "eval_steps": 2, "save_steps": 2}
    more = {"load_best_model_at_end": True, "save_total_limit": 1, "use_cpu": True, "report_to": "none"}
    args = LMTrainingArguments(output_dir=str(tmp_path), window_length=tiny.LENGTH, **options, **more)
    model, valid = tiny.model(), tiny.windows(101, 1)
    losses = dict(train_lm(model, tiny.windows(), valid, args).valid_losses[1:])
    best = min(losses, key=losses.__getitem__)
    assert best < 8, losses
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [f"checkpoint-{best}", "checkpoint-8"]
    after = tiny.model()
    again = train_lm(after, tiny.windows(), valid, args)  # nothing is left to do
    assert tiny.same(tiny.weights(after), tiny.weights(model))
    assert dict(again.valid_losses[1:]) == losses
    check = LMTrainingArguments(output_dir=str(tmp_path / "check"), max_steps=1, learning_rate=1e-9, use_cpu=True)
    assert train_lm(model, tiny.windows(), valid, check).valid_losses[0][1] == pytest.approx(losses[best], abs=1e-5)


def test_the_trained_model_is_pushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = []

    def init(self) -> None:
        self.hub_model_id = self.args.hub_model_id

    monkeypatch.setattr("transformers.Trainer.init_hf_repo", init)
    monkeypatch.setattr("unbottle.train.run.upload_folder", lambda **options: pushed.append(options))
    options = {"max_steps": 2, "use_cpu": True, "push_to_hub": True, "hub_model_id": "me/mine", "report_to": "none"}
    args = LMTrainingArguments(output_dir=str(tmp_path), window_length=tiny.LENGTH, **options)
    train_lm(tiny.model(), tiny.windows(), None, args)
    assert [(push["repo_id"], push["folder_path"]) for push in pushed] == [("me/mine", tmp_path / "model")]
    assert {path.suffix for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()} == {
        ".json",
        ".safetensors",
    }


@pytest.mark.parametrize("name", NOT_SUPPORTED)
def test_what_an_exact_resumption_rules_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{name} is not supported: "):
        LMTrainingArguments(output_dir=str(tmp_path), **{name: True})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--optim adamw", "optim 'adamw': unknown. Known: adamw_torch,"),
        ("--lr_scheduler_type zigzag", "lr_scheduler_type 'zigzag': unknown. Known: linear,"),
        ("--learning_rate -1", "learning_rate -1: give a number above 0."),
        ("--set bf16=perhaps", "bf16 'perhaps': give true or false."),
        ("--max_steps 0", "max_steps 0: give a number of at least 1"),
        ("--learnin_rate 1", "No such option: --learnin_rate"),
    ],
)
def test_refusals(line: str, message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "lm", *line.split()]) == 2
    assert message in capsys.readouterr().err
