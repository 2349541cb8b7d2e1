"""`transformers serve` takes a saved model with a head, and answers what generate() says."""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from models import shaken, tiny
from tokenizer import tokenizer

from unbottle.hf import attach, detach
from unbottle.hub import add_remote_code

for package in ("fastapi", "uvicorn", "openai"):
    pytest.importorskip(package, reason="needs what transformers serve needs: pip install 'transformers[serving]'")

PROMPTS = ["w5 w6 w7 w5", "w9", "w20 w21 w20 w21 w20 w21 w8"]
FEW_PAGES = (
    "--cb-num-blocks",
    "64",
    "--cb-max-batch-tokens",
    "256",
)  # or pages take all memory of a machine without GPU
PATIENCE = 120  # seconds until a server answers


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("saved")
    torch.manual_seed(0)
    model = shaken(attach(tiny("gpt2"), "softmax+cpr:5,20+mi"))
    model.save_pretrained(folder)
    add_remote_code(folder)
    tokenizer().save_pretrained(folder)
    return model, folder


@contextmanager
def server(folder: Path, log: Path, *options: str) -> Iterator[str]:
    """Its address, once it answers. It never imports unbottle by itself: the model's directory asks for that."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--port", str(port)]
    settings = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(log.parent / "modules"), "OMP_NUM_THREADS": "1"}
    with log.open("w") as said:
        process = subprocess.Popen(
            [*line, "--device", "cpu", "--trust-remote-code", *options],
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=os.environ | settings,
        )  # fmt: skip
    try:
        address, started = f"http://localhost:{port}", time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() - started < PATIENCE, log.read_text()[-3000:]
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def completion(address: str, folder: Path, prompt: str) -> str:
    """As any client of OpenAI's interface asks."""
    body = {"model": str(folder), "prompt": prompt, "max_tokens": 6, "temperature": 0}
    request = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["text"]


def generated(model, prompt: str) -> str:
    ids = tokenizer()(prompt, return_tensors="pt").input_ids
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
    return tokenizer().decode(made[0, ids.shape[1] :], skip_special_tokens=True)


def test_completions_are_those_of_generate(saved, tmp_path: Path) -> None:
    model, folder = saved
    with server(folder, tmp_path / "log") as address:
        got = {prompt: completion(address, folder, prompt) for prompt in PROMPTS}
    assert got == {prompt: generated(model, prompt) for prompt in PROMPTS}
    plain = detach(attach(tiny("gpt2"), "softmax"))
    assert got != {prompt: generated(plain, prompt) for prompt in PROMPTS}, "the head says nothing"


def test_continuous_batching(saved, tmp_path: Path) -> None:
    """Requests that arrive together get the answers of generate()."""
    model, folder = saved
    client = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "08_openai_client.py"))["main"]
    with server(folder, tmp_path / "log", "--continuous-batching", *FEW_PAGES) as address:
        got = client(f"{address}/v1", str(folder), PROMPTS, tokens=6)
    assert got == [generated(model, prompt) for prompt in PROMPTS]
    assert "Falling back to sequential" not in (tmp_path / "log").read_text()
