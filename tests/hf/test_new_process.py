"""Saved models in processes that did not save them, with unbottle imported and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from saved_models import CASES, WORDS

CHECK = """
import sys, torch
from pathlib import Path
from safetensors.torch import load_file
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM
root, words = Path(sys.argv[1]), torch.tensor(eval(sys.argv[2]))
cases = sorted(path.stem for path in root.glob("*.head"))

def auto(name):
    return AutoModelForSeq2SeqLM if name.startswith(("t5", "bart")) else AutoModelForCausalLM

@torch.no_grad()
def check(name, model):
    decoder = {"decoder_input_ids": words.flip(1)} if model.config.is_encoder_decoder else {}
    expected = load_file(root / f"{name}.safetensors")["logits"]
    assert torch.allclose(model(input_ids=words, **decoder).logits, expected, atol=1e-6), name
    assert type(model).__name__.startswith("Unbottled"), name
    model.generate(words, num_beams=2, max_new_tokens=3, pad_token_id=0)
"""


def in_new_process(code: str, saved: Path, tmp_path: Path) -> str:
    settings = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK + code, str(saved), str(WORDS.tolist())],
        capture_output=True, text=True, env=os.environ | settings, stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_new_process_with_unbottle(saved: Path, tmp_path: Path) -> None:
    code = """
import unbottle
for name in cases:
    check(name, unbottle.load(root / name))
    check(name, auto(name).from_pretrained(root / name))
    check(name, unbottle.load_head(auto(name).from_pretrained(root / f"{name}.base"), root / f"{name}.head"))
print(len(cases))
"""
    assert in_new_process(code, saved, tmp_path).split()[-1] == str(len(CASES))


def test_new_process_without_unbottle(saved: Path, tmp_path: Path) -> None:
    """Plain transformers refuses; told to trust the directory, it imports unbottle through the shim."""
    code = """
for name in cases:
    for load in (auto(name), transformers.AutoModel, AutoConfig):
        for trust in ({}, {"trust_remote_code": False}):
            try:
                load.from_pretrained(root / name, **trust)
            except ValueError as error:
                assert "trust_remote_code=True" in str(error), error
                print("refused")
assert "unbottle" not in sys.modules
for name in cases:
    check(name, auto(name).from_pretrained(root / name, trust_remote_code=True))
    print("trusted")
"""
    said = in_new_process(code, saved, tmp_path)
    assert said.count("refused") == 6 * len(CASES)
    assert said.count("trusted") == len(CASES)
