"""save_head, load_head: the head alone, for its own base model and no other."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import pytest
import torch
from models import shaken, words
from models import tiny as shared
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import unbottle
from unbottle.hf.model_identity import fingerprint

CASES = {"gpt2": "softmax+cpr:5,20+mi", "llama-untied": "pg+mi", "t5": "softmax+cepr:20+mi", "bart": "mos:2+e"}
CONFIG, WEIGHTS = "head_config.json", "head_model.safetensors"
WORDS = words()


def tiny(name: str):
    """A tiny model with a config of its own."""
    return copy.deepcopy(shared(name))


@torch.no_grad()
def logits(model) -> torch.Tensor:
    decoder = {"decoder_input_ids": WORDS.flip(1)} if model.config.is_encoder_decoder else {}
    return model(input_ids=WORDS, **decoder).logits


def rewrite(path: Path, change) -> None:
    """Change head_config.json in place."""
    data = json.loads(path.read_text(encoding="utf-8"))
    data = change(data) or data
    path.write_text(json.dumps(data), encoding="utf-8")


def forge(directory: Path, change, config=lambda data: None) -> None:
    """Change the weights, and make every checksum right again."""
    tensors = load_file(directory / WEIGHTS)
    change(tensors)
    data = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    config(data)
    kept = {key: value for key, value in data.items() if key not in ("base_model_name_or_path", "weights_sha256")}
    checksum = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    save_file(tensors, directory / WEIGHTS, metadata={"config_sha256": checksum})
    data["weights_sha256"] = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    (directory / CONFIG).write_text(json.dumps(data), encoding="utf-8")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    unbottle.save_head(shaken(unbottle.attach(tiny("gpt2"), CASES["gpt2"])), tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_comes_back_the_same(name: str, tmp_path: Path) -> None:
    model = shaken(unbottle.attach(tiny(name), CASES[name], convention="release"))
    unbottle.save_head(model, tmp_path / "deep" / "head")
    base = tiny(name)
    loaded = unbottle.load_head(base, tmp_path / "deep" / "head")
    assert loaded is base
    assert loaded.head.config == model.head.config
    assert torch.equal(logits(loaded), logits(model))
    beams = {"num_beams": 3, "do_sample": False, "max_new_tokens": 6}
    assert torch.equal(loaded.generate(WORDS, **beams), model.generate(WORDS, **beams))
    loaded.save_pretrained(tmp_path / "all")
    assert torch.equal(logits(unbottle.load(tmp_path / "all")), logits(model))


def test_files(tmp_path: Path) -> None:
    model = tiny("gpt2")
    model.config.name_or_path = "openai-community/gpt2"
    unbottle.save_head(unbottle.attach(model, "softmax+c"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {CONFIG, WEIGHTS, "README.md"}
    data = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    assert data["base_model_name_or_path"] == "openai-community/gpt2"
    assert data["base_model_type"] == "gpt2"
    assert data["head"] == model.head.config.to_dict()
    assert load_file(tmp_path / WEIGHTS).keys() == model.head.state_dict().keys()
    assert (tmp_path / WEIGHTS).stat().st_size < 4 * sum(p.numel() for p in model.head.parameters()) + 2000


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_base_in_another_precision_is_the_same_base(dtype: torch.dtype, directory: Path, tmp_path: Path) -> None:
    narrow = unbottle.load_head(tiny("gpt2").to(dtype), directory)
    assert {parameter.dtype for parameter in narrow.parameters()} == {dtype}
    unbottle.save_head(narrow, tmp_path / "narrow")
    wide = unbottle.load_head(tiny("gpt2"), tmp_path / "narrow")
    assert torch.equal(wide.head.L["C"].weight, narrow.head.L["C"].weight.float())


def test_base_from_its_own_directory(directory: Path, tmp_path: Path) -> None:
    tiny("gpt2").save_pretrained(tmp_path / "base")
    model = unbottle.load_head(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), directory)
    unbottle.save_head(model, tmp_path / "again")
    data = json.loads((tmp_path / "again" / CONFIG).read_text(encoding="utf-8"))
    assert data["base_model_name_or_path"] == str(tmp_path / "base")
    model.save_pretrained(tmp_path / "all")
    unbottle.save_head(unbottle.load(tmp_path / "all"), tmp_path / "third")  # the base is still the base
    assert json.loads((tmp_path / "third" / CONFIG).read_text(encoding="utf-8")) == data


def test_tied_and_untied_of_the_same_values(tmp_path: Path) -> None:
    model = unbottle.attach(tiny("gpt2"), "softmax+c")
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    unbottle.save_head(model, tmp_path)
    unbottle.load_head(tiny("gpt2"), tmp_path)


# -- another base


def moved(part: str, by: float):
    model = tiny("gpt2")
    with torch.no_grad():
        model.get_parameter(part).add_(by)
    return model


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: moved("transformer.wte.weight", 1e-4), "other values in its output embeddings"),
        (lambda: moved("transformer.h.1.mlp.c_fc.weight", 1e-4), r"other values in its transformer\.h\.1\.mlp\.c_fc"),
        (lambda: moved("transformer.h.1.mlp.c_fc.weight", 0.05).bfloat16(), r"other values in its transformer\.h\.1"),
        (lambda: tiny("llama"), "LlamaForCausalLM is another model"),
    ],
)
def test_another_base(other, message: str, directory: Path) -> None:
    model = other()
    before, kind = logits(model), type(model)
    with pytest.raises(ValueError, match=message) as refusal:
        unbottle.load_head(model, directory)
    assert "this head was trained on a gpt2 model" in str(refusal.value)
    assert "force=True" in str(refusal.value)
    assert type(model) is kind
    assert torch.equal(logits(model), before)
    assert not hasattr(model, "head")
    unbottle.load_head(model, directory, force=True)
    assert torch.equal(
        model.head.L["C"].weight.float(), load_file(directory / WEIGHTS)["L.C.weight"].to(model.dtype).float()
    )


def test_fewer_layers(directory: Path) -> None:
    model = tiny("gpt2")
    del model.transformer.h[2]
    model.config.n_layer = 2
    with pytest.raises(ValueError, match=r"another model: it has no transformer\.h\.2"):
        unbottle.load_head(model, directory)


def test_another_vocabulary(directory: Path) -> None:
    model = tiny("gpt2")
    model.resize_token_embeddings(75, mean_resizing=False)
    with pytest.raises(ValueError, match=r"its output embeddings are \[75, 32\], not \[61, 32\]"):
        unbottle.load_head(model, directory)
    assert unbottle.load_head(model, directory, force=True).head.config.vocabulary == 75


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda: GPT2LMHeadModel(GPT2Config(vocab_size=61, n_embd=16, n_layer=1, n_head=2)),
            "hidden_size=32, .* has 16",
        ),
        (lambda: tiny("t5"), "encoder_decoder=False, and this T5ForConditionalGeneration has True"),
    ],
)
def test_another_shape_even_by_force(other, message: str, directory: Path) -> None:
    with pytest.raises(ValueError, match=message):
        unbottle.load_head(other(), directory, force=True)


def test_quantised_layers_are_passed_over(directory: Path) -> None:
    model = tiny("gpt2")
    layer = model.transformer.h[1].mlp.c_fc
    layer.weight = nn.Parameter(layer.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(unbottle.UnsupportedArchitectureError):  # this fake cannot run; the fingerprint has let it pass
        unbottle.load_head(model, directory)


def test_fingerprint_spreads_over_the_model() -> None:
    weights = fingerprint(tiny("t5"))["weights"]
    assert len(weights) > 12
    assert all(len(values.split()) == 8 for values in weights.values())
    assert any("encoder.block.0" in name for name in weights)
    assert any("decoder.block.1" in name for name in weights)
    assert fingerprint(unbottle.attach(tiny("t5"), "softmax+ce")) == fingerprint(tiny("t5"))


# -- refusals


def test_models_that_can_not(directory: Path) -> None:
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no head"):
        unbottle.save_head(tiny("gpt2"), directory)
    with pytest.raises(ValueError, match="already has a head"):
        unbottle.load_head(unbottle.attach(tiny("gpt2"), "softmax"), directory)
    with pytest.raises(TypeError, match="expected a transformers model"):
        unbottle.load_head(nn.Linear(2, 2), directory)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_missing_file(name: str, directory: Path) -> None:
    (directory / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {name}: expected a directory written by unbottle.save_head"):
        unbottle.load_head(tiny("gpt2"), directory)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("size", [0, 5, -20])
def test_truncated_file(name: str, size: int, directory: Path) -> None:
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content[:size])
    with pytest.raises(ValueError, match=f"{name} is .*truncated or was edited"):
        unbottle.load_head(tiny("gpt2"), directory)


def test_edited_weights(directory: Path) -> None:
    content = bytearray((directory / WEIGHTS).read_bytes())
    content[-7] ^= 1
    (directory / WEIGHTS).write_bytes(content)
    with pytest.raises(ValueError, match=f"{WEIGHTS} is not the file that {CONFIG} describes"):
        unbottle.load_head(tiny("gpt2"), directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["head"].update(method="softmax+cpr:6,20+mi"), "was edited after it was saved"),
        (lambda data: data["base_fingerprint"].update(dtype="bfloat16"), "was edited after it was saved"),
        (lambda data: data.update(code="import os"), "has the keys base_fingerprint, .*, code, .*; expected exactly"),
        (lambda data: data.pop("head") and None, "has the keys base_fingerprint, .*; expected exactly head"),
        (lambda data: [1], r"has the keys \[1\]; expected exactly"),
        (lambda data: data.update(base_model_type=3), "base_model_type is 3, expected str"),
    ],
)
def test_edited_config(change, message: str, directory: Path) -> None:
    rewrite(directory / CONFIG, change)
    with pytest.raises(ValueError, match=f"{CONFIG}.* {message}|{CONFIG}: {message}"):
        unbottle.load_head(tiny("gpt2"), directory)


def test_where_the_base_lies_may_change(directory: Path) -> None:
    rewrite(directory / CONFIG, lambda data: data.update(base_model_name_or_path="elsewhere/gpt2"))
    unbottle.load_head(tiny("gpt2"), directory)


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        (lambda t: t.pop("L.C.weight"), lambda d: None, r"L\.C\.weight is missing, but the head .* expects \(32, 64\)"),
        (lambda t: t.update(x=torch.ones(3)), lambda d: None, r"x is \(3,\), but .* expects no such tensor"),
        (lambda t: t.update({"L.C.bias": torch.ones(3)}), lambda d: None, r"L\.C\.bias is \(3,\), .* \(32,\)"),
        (
            lambda t: None,
            lambda d: d["head"].update(method="pg"),
            r"L\.C\.bias is \(32,\), but the head 'pg' expects no",
        ),
        (lambda t: None, lambda d: d["head"].update(code="import os"), "'head': unknown key 'code'"),
    ],
)
def test_forged_files(change, config, message: str, directory: Path) -> None:
    forge(directory, change, config)
    with pytest.raises(ValueError, match=message):
        unbottle.load_head(tiny("gpt2"), directory)
    forge(directory, lambda tensors: None)


def test_not_safetensors(directory: Path) -> None:
    (directory / WEIGHTS).write_bytes(b"\x80\x04 a pickle, say")
    checksum = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    rewrite(directory / CONFIG, lambda data: data.update(weights_sha256=checksum))
    with pytest.raises(ValueError, match=f"{WEIGHTS} is not a safetensors file"):
        unbottle.load_head(tiny("gpt2"), directory)
