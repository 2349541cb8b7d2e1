"""The commands as people start them: torchrun, accelerate launch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_summaries
from launching import PATIENCE
from tiny_causal import saved, tokenizer

from unbottle.cli.main import main

TEXT = "The king and the queen met the man and the woman. Anna said that the king should go to Paris.\n" * 60
QUICK = ("--max-steps", "4", "--lr", "1e-3", "--set", "device=cpu", "--set", "log_every=1", "--set", "warmup_steps=0")
LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def accelerate(engine: str) -> tuple[str, ...]:
    """A port of its own: tests run in parallel."""
    port = str(29600 + os.getpid() % 1000)
    return ("accelerate.commands.launch", "--config_file", str(LAUNCH / f"{engine}.yaml"), "--main_process_port", port)


def launched(launcher: tuple[str, ...], *line: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *launcher, "-m", "unbottle", *line],
        capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """A command line for each kind of training. The models have no dropout."""
    folder = tmp_path_factory.mktemp("base")
    saved(folder / "lm", "plain", tokenizer([TEXT]))
    config = json.loads((folder / "lm" / "config.json").read_text())
    config |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    (folder / "lm" / "config.json").write_text(json.dumps(config))
    (folder / "text.txt").write_text(TEXT)
    tiny_summaries.model("t5", None, dropout=0.0).save_pretrained(folder / "t5")
    tiny_summaries.tokenizer().save_pretrained(folder / "t5")
    pairs = [{"document": row["document"], "summary": row["summary"]} for row in tiny_summaries.rows(60)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)) + "\n")
    lm = ["--model", str(folder / "lm"), "--method", "softmax+cpr:3,9+mi", "--data", str(folder / "text.txt")]
    summarize = ["--model", str(folder / "t5"), "--method", "s+cepr:20", "--data", str(folder / "pairs.jsonl")]
    return {
        "lm": ["train", "lm", *lm, "--length", "16", *QUICK],
        "summarize": ["train", "summarize", *summarize, "--source-length", "40", *QUICK],
    }


@pytest.mark.parametrize(
    ("kind", "launcher"),
    [
        pytest.param("lm", TORCHRUN, marks=pytest.mark.full),  # two processes without a launcher: test_training.py
        pytest.param("summarize", accelerate("fsdp2"), marks=pytest.mark.full),
        pytest.param("lm", accelerate("ddp"), marks=pytest.mark.full),
    ],
    ids=["lm torchrun", "summarize fsdp2", "lm ddp"],
)
def test_a_launched_command_is_one_training(kind: str, launcher, lines, tmp_path: Path) -> None:
    both, alone = tmp_path / "both", tmp_path / "alone"
    done = launched(launcher, *lines[kind], "--output", str(both))
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count("Written to ") == done.stdout.count("Validation: loss ") == 1
    assert done.stderr.count("100%") == 1
    assert main([*lines[kind], "--output", str(alone)]) == 0
    found, wanted = (json.loads((folder / "result.json").read_text()) for folder in (both, alone))
    for name in ("losses", "valid_losses"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-5)
    config, other = (json.loads((folder / "config.json").read_text())["settings"] for folder in (both, alone))
    assert config | {"output_dir": ""} == other | {"output_dir": ""}


@pytest.mark.full
def test_a_refusal_is_said_once(lines, tmp_path: Path) -> None:
    done = launched(TORCHRUN, *lines["lm"], "--batch", "3", "--output", str(tmp_path))
    assert done.returncode != 0
    assert done.stderr.count("unbottle: ") == 1
    assert "unbottle: error: batch_size 3: 2 processes share a batch. Give a multiple of 2." in done.stderr


def test_other_commands_are_one_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(["bench", "--shape", "gpt2"]) == 2
    assert "unbottle bench runs as one process, and 2 were started." in capsys.readouterr().err
