"""Saved models that were edited, cut or made by something else: an error that says what is wrong."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from saved_models import case, edit, logits, tiny
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GPT2LMHeadModel,
)

import unbottle
from unbottle.hf.attach import unbottled


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["unbottle"].update(code="import os"), r"unknown key 'code'\. Known: method, hidden_size"),
        (lambda data: data["unbottle"].pop("method"), "the key 'method' is missing"),
        (lambda data: data["unbottle"].update(hidden_size="32"), "hidden_size is '32', expected int"),
        (lambda data: data["unbottle"].update(vocabulary=True), "vocabulary is True, expected int"),
        (lambda data: data["unbottle"].update(source_size=1.5), "source_size is 1.5, expected int or null"),
        (lambda data: data["unbottle"].update(method="softmax+x"), "'unbottle': method 'softmax.x'"),
        (lambda data: data["unbottle"].update(method=["c"]), r"method is \['c'\], expected str"),
        (lambda data: data["unbottle"].update(convention="mine"), "convention 'mine': expected one of paper, release"),
        (lambda data: data.update(unbottle="softmax"), "got 'softmax'"),
        (lambda data: data.pop("unbottle"), "'unbottle': expected the config of a head"),
        (lambda data: data["unbottle"].update(hidden_size=31), "hidden_size is 31, but that of the model is 32"),
        (lambda data: data["unbottle"].update(vocabulary=60), "vocabulary is 60, but that of the model is 61"),
        (lambda data: data["unbottle"].update(encoder_decoder=True), "encoder_decoder is True, but .* False"),
        (lambda data: data["unbottle"].update(method="softmax+c"), r"head\.L\.C\.weight and 1 more of another shape"),
        (lambda data: data["unbottle"].update(method="mos:2+cpr:5,20+mi"), r"head\.L\.V2\.bias and 3 more missing"),
        (lambda data: data.update(base_model_type="gpt9"), "base_model_type is 'gpt9', which this transformers"),
        (lambda data: data.update(base_model_type="unbottle"), "base_model_type is 'unbottle'"),
        (lambda data: data.update(base_model_type=["gpt2"]), r"base_model_type is \['gpt2'\]"),
        (lambda data: data.pop("base_model_type"), "base_model_type is None"),
    ],
)
def test_edited_config(directory: Path, change, message: str) -> None:
    edit(directory / "config.json", change)
    with pytest.raises(ValueError, match=message):
        unbottle.load(directory)


def test_unknown_key_is_refused_by_the_auto_classes_too(directory: Path) -> None:
    edit(directory / "config.json", lambda data: data["unbottle"].update(code="import os"))
    for kind in (AutoConfig, AutoModelForCausalLM, unbottled(GPT2LMHeadModel)):
        with pytest.raises(ValueError, match=r"config\.json, 'unbottle': unknown key 'code'"):
            kind.from_pretrained(directory)


@pytest.mark.parametrize("name", ["UnbottledMine", "utils", "AutoModel", "BartForConditionalGeneration", "GPT2Model"])
def test_names_of_classes_are_only_looked_up_among_models(directory: Path, name: str) -> None:
    edit(directory / "config.json", lambda data: data.update(architectures=[name]))
    assert type(unbottle.load(directory)) is unbottled(GPT2LMHeadModel)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("head.L.C.weight"), r"head\.L\.C\.weight missing"),
        (lambda weights: weights.pop("transformer.h.0.ln_1.bias"), r"transformer\.h\.0\.ln_1\.bias missing"),
        (lambda weights: weights.update({"head.L.Z.weight": torch.ones(1)}), r"head\.L\.Z\.weight unexpected"),
    ],
)
def test_edited_weights(directory: Path, change, message: str) -> None:
    edit_weights(directory, change)
    with pytest.raises(ValueError, match=f"{directory}: the weights do not belong to config.json: {message}"):
        unbottle.load(directory)


def edit_weights(directory: Path, change) -> None:
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def without_head(weights: dict[str, torch.Tensor]) -> None:
    for name in [name for name in weights if name.startswith("head.")]:
        del weights[name]


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.pop("head.L.C.weight"),
        lambda weights: weights.update({"head.L.Z.weight": torch.ones(1)}),
        lambda weights: weights.update({"head.L.C.weight": torch.ones(3, 3)}),
        lambda weights: weights["head.L.C.weight"].view(-1)[7].fill_(torch.nan),
        lambda weights: weights["head.L.V.bias"].fill_(-torch.inf),
        without_head,
    ],
)
def test_from_pretrained_refuses_a_wrong_head_as_load_does(directory: Path, change) -> None:
    edit_weights(directory, change)
    with pytest.raises(ValueError, match=str(directory)) as error:
        unbottle.load(directory)
    for kind in (AutoModelForCausalLM, unbottled(GPT2LMHeadModel)):
        with pytest.raises(ValueError, match=re.escape(str(error.value))):
            kind.from_pretrained(directory)


def test_a_head_with_values_that_break(directory: Path, tmp_path: Path) -> None:
    edit_weights(directory, lambda weights: weights["head.L.C.weight"].view(-1)[7].fill_(torch.nan))
    with pytest.raises(
        ValueError, match=r"head\.L\.C\.weight has values that are NaN or infinite.* earlier checkpoint"
    ):
        unbottle.load(directory)
    model = case("gpt2")
    with torch.no_grad():
        model.head.L["R1"].bias[3] = torch.inf
    unbottle.save_head(model, tmp_path / "head")
    with pytest.raises(ValueError, match=r"head_model\.safetensors: L\.R1\.bias has values that are NaN or infinite"):
        unbottle.load_head(unbottle.detach(model), tmp_path / "head")


@pytest.mark.parametrize("kind", ["load", "auto"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["unbottle"].update(method="softmax+cpr:5,20+mi:3x80"), "L_h.weight of another shape"),
        (lambda data: data["unbottle"].update(method="softmax+cpr:5,20+mi:3x100000"), "L x W <= 1024"),
        (lambda data: data["unbottle"].update(method="mos:100000+cpr:5,20+mi"), "K <= 64"),
        (lambda data: data.update(n_embd=1_000_000), "hidden_size is 32, but that of the model is 1000000"),
        (lambda data: data.update(n_embd=10**12), "no model can have the sizes that config.json says"),
        (lambda data: data.update(n_inner=10**8), r"mlp\.c_fc\.bias and 8 more of another shape"),
        (lambda data: data.update(n_positions=10**8), r"wpe\.weight of another shape"),
        (lambda data: data.update(vocab_size=10**8), "vocabulary is 61, but that of the model is 100000000"),
        (
            lambda data: data.update(vocab_size=10**8) or data["unbottle"].update(vocabulary=10**8),
            "wte.weight of anoth",
        ),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_allocated(directory: Path, change, message: str, kind) -> None:
    edit(directory / "config.json", change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=message) as error:
        unbottle.load(directory) if kind == "load" else AutoModelForCausalLM.from_pretrained(directory)
    assert "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KB"


def test_a_config_that_is_nested_too_deeply(directory: Path) -> None:
    text = (directory / "config.json").read_text(encoding="utf-8")
    (directory / "config.json").write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "," + text[1:], encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json is nested too deeply"):
        unbottle.load(directory)
    unbottle.save_head(case("gpt2"), directory / "head")
    (directory / "head" / "head_config.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ValueError, match=r"head_config\.json is not valid JSON \(maximum recursion depth"):
        unbottle.load_head(tiny("gpt2"), directory / "head")


def test_truncated_shard(tmp_path: Path) -> None:
    case("gpt2").save_pretrained(tmp_path, max_shard_size="20KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-50])
    with pytest.raises(ValueError, match=f"{shard.name} is truncated or was edited"):
        unbottle.load(tmp_path)


def test_no_pickles(directory: Path) -> None:
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save(weights, directory / "pytorch_model.bin")
    for load in (unbottle.load, AutoModelForCausalLM.from_pretrained):
        with pytest.raises(OSError, match=r"no file named model\.safetensors"):
            load(directory)


def test_not_a_directory_of_unbottle(saved: Path) -> None:
    with pytest.raises(ValueError, match=r"holds a plain gpt2 model, without a head\. Load it with transformers, then"):
        unbottle.load(saved / "gpt2.base")
    with pytest.raises(ValueError, match=r"holds a head without its model.*unbottle\.load_head"):
        unbottle.load(saved / "gpt2.head")
    with pytest.raises(ValueError, match="'unbottle': expected the config of a head"):
        unbottled(GPT2LMHeadModel).from_pretrained(saved / "gpt2.base")
    with pytest.raises(ValueError, match="encoder_decoder is True, but that of the model is False"):
        AutoModelForCausalLM.from_pretrained(saved / "bart")  # the decoder alone
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        AutoModelForSeq2SeqLM.from_pretrained(saved / "gpt2")


def test_loading_information(saved: Path) -> None:
    model, info = unbottle.load(saved / "gpt2", output_loading_info=True)
    assert torch.equal(logits(model), load_file(saved / "gpt2.safetensors")["logits"])
    assert not info["missing_keys"]
