"""Every example runs on a tiny model and does what it says."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import pytest
import tiny_causal
import tiny_summaries
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from unbottle.head.partition import PARTITIONS
from unbottle.method import LETTERS

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ["01_attach", "02_summarize_t5", "03_own_partition", "04_lora", "05_trl_sft", "06_lm_eval", "08_openai_client"]
METHOD = "softmax+cpr:3,9+mi"


def example(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = tiny_causal.tokenizer(["Anna met Boris in Rome, and in Oslo Boris met Chen, with tea and milk."] * 4)
    return tiny_causal.saved(tmp_path_factory.mktemp("causal"), "plain", words)


@pytest.fixture(scope="module")
def llama(causal: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Llama with the same tokenizer: all its layers are linear, which LoRA needs."""
    folder = tmp_path_factory.mktemp("llama")
    words = AutoTokenizer.from_pretrained(causal)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    ids = {"pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 0}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes, **ids)).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def test_all_examples_are_listed_and_short() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60, path.name


def test_attach(causal: str, capsys: pytest.CaptureFixture) -> None:
    assert example("01_attach")["main"](causal, METHOD) < 1e-4
    out = capsys.readouterr().out
    assert f"{METHOD} adds " in out
    assert "with copy_bias=3:" in out


def test_summarize(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate: pip install 'unbottle[train]'")
    model = tiny_summaries.model("t5", None)
    model.save_pretrained(tmp_path)
    tiny_summaries.tokenizer().save_pretrained(tmp_path)
    losses = example("02_summarize_t5")["main"](str(tmp_path), "s+cepr:20", max_steps=40, lr=2e-2, device="cpu")
    assert losses[-1] < losses[0] - 0.5
    assert capsys.readouterr().out.count("  -> ") == 3


def test_own_partition(causal: str, capsys: pytest.CaptureFixture) -> None:
    try:
        losses = example("03_own_partition")["main"](causal, "softmax+n", 10)
    finally:
        LETTERS.pop("n", None), PARTITIONS.pop("n", None)
    assert losses[-1] < losses[0]
    assert "N" in capsys.readouterr().out.split()


def test_lora(llama: str) -> None:
    for package in ("accelerate", "peft"):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'unbottle[train]'")
    losses, difference = example("04_lora")["main"](llama, METHOD)
    assert difference == 0.0
    assert losses[-1] < losses[0]


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs trl: make test-ecosystem installs it")
def test_trl(causal: str, capsys: pytest.CaptureFixture) -> None:
    losses = example("05_trl_sft")["main"](causal, METHOD, learning_rate=1e-2, use_cpu=True)
    assert losses[-1] < losses[0] / 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("the king saw")


@pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None, reason="needs lm_eval: make test-ecosystem installs it"
)
def test_lm_eval(causal: str) -> None:
    accuracies = example("06_lm_eval")["main"](causal, METHOD)
    assert [*accuracies] == ["plain", METHOD]
    assert accuracies["plain"] == accuracies[METHOD]
