"""Saved models in processes that did not save them, with unbottle imported and without."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file
from saved_models import CASES, WORDS, case, logits
from tokenizer import tokenizer

import unbottle
from unbottle.hub import add_remote_code

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


@pytest.mark.full  # in one process: test_saving.py
def test_pickled_models_in_a_new_process(tmp_path: Path) -> None:
    """As a process started by spawn gets them: nothing is imported beforehand."""
    for name in CASES:
        model = case(name)
        (tmp_path / f"{name}.head").touch()
        save_file({"logits": logits(model)}, tmp_path / f"{name}.safetensors")
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model))
    code = """
import pickle
for name in cases:
    check(name, pickle.loads((root / f"{name}.pickle").read_bytes()))
print(len(cases))
"""
    assert in_new_process(code, tmp_path, tmp_path).split()[-1] == str(len(CASES))


def test_new_process_without_unbottle(saved: Path, tmp_path: Path) -> None:
    """Plain transformers refuses the model, without a question, and takes the tokenizer that lies beside it."""
    shutil.copytree(saved, tmp_path / "saved")
    for name in CASES:
        tokenizer().save_pretrained(tmp_path / "saved" / name)
    code = """
import builtins
builtins.input = lambda *asked: sys.exit("it asks a question")
for name in cases:
    for load in (auto(name), transformers.AutoModel, AutoConfig):
        for trust in ({}, {"trust_remote_code": False}, {"trust_remote_code": True}):
            try:
                load.from_pretrained(root / name, **trust)
            except ValueError as error:
                assert "model type `unbottle`" in str(error), error
                print("refused")
    assert transformers.AutoTokenizer.from_pretrained(root / name)("w5 w6").input_ids == [5, 6]
    print("read")
try:
    transformers.GPT2LMHeadModel.from_pretrained(root / "gpt2")  # the class of its own base
except Exception as error:
    assert "this model has a head: load it with unbottle.load" in str(error), error
    print("refused")
assert "unbottle" not in sys.modules
"""
    said = in_new_process(code, tmp_path / "saved", tmp_path)
    assert said.count("refused") == 9 * len(CASES) + 1
    assert said.count("read") == len(CASES)


def test_remote_code(saved: Path, tmp_path: Path) -> None:
    """A directory with the line that imports unbottle: plain transformers runs it where it is told to, only there."""
    shutil.copytree(saved, tmp_path / "saved")
    for name in CASES:
        add_remote_code(tmp_path / "saved" / name)
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
    said = in_new_process(code, tmp_path / "saved", tmp_path)
    assert said.count("refused") == 6 * len(CASES)
    assert said.count("trusted") == len(CASES)


def test_remote_code_is_for_models_with_a_head(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "gpt2.base", tmp_path / "base")
    with pytest.raises(ValueError, match="holds a gpt2 model without a head"):
        add_remote_code(tmp_path / "base")
    shutil.copytree(saved / "gpt2", tmp_path / "model")
    add_remote_code(tmp_path / "model")
    assert len((tmp_path / "model" / "unbottle_shim.py").read_text(encoding="utf-8").splitlines()) == 1
    unbottle.load(tmp_path / "model").save_pretrained(tmp_path / "again")
    assert "auto_map" not in (tmp_path / "again" / "config.json").read_text(encoding="utf-8")
