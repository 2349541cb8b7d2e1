"""save_pretrained, load, the Auto classes: what comes back is what was saved."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from models import shaken
from safetensors import safe_open
from saved_models import CASES, WORDS, auto, case, logits, tiny
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import unbottle


@pytest.mark.parametrize("name", CASES)
def test_comes_back_the_same(name: str, tmp_path: Path) -> None:
    model = case(name)
    model.save_pretrained(tmp_path)
    expected = {key: value.clone() for key, value in model.state_dict().items()}
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    for loaded in (unbottle.load(tmp_path), auto(model).from_pretrained(tmp_path)):
        assert type(loaded) is type(model)
        assert not loaded.training
        assert loaded.head.config == model.head.config
        assert loaded.config.model_type == model.config.model_type == AutoConfig.from_pretrained(tmp_path).model_type
        assert (loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight) == tied
        assert loaded.state_dict().keys() == expected.keys()
        assert all(torch.equal(value, expected[key]) for key, value in loaded.state_dict().items())
        torch.testing.assert_close(logits(loaded), logits(model))  # rounds by where the weights lie in memory
        beams = {"num_beams": 3, "num_return_sequences": 2, "do_sample": False, "max_new_tokens": 6}
        assert torch.equal(loaded.generate(WORDS, **beams), model.generate(WORDS, **beams))


def test_files(saved: Path) -> None:
    for name in CASES:
        files = {path.name for path in (saved / name).iterdir()}
        expected = {"config.json", "generation_config.json", "model.safetensors", "README.md"}
        assert files == expected
        with safe_open(saved / name / "model.safetensors", framework="pt") as weights:
            names = set(weights.keys())
        with safe_open(saved / f"{name}.base" / "model.safetensors", framework="pt") as weights:
            base = set(weights.keys())
        assert base < names
        assert all(key.startswith("head.") for key in names - base)


def test_two_faces(saved: Path) -> None:
    model = case("gpt2")
    on_disk = json.loads((saved / "gpt2" / "config.json").read_text(encoding="utf-8"))
    assert on_disk["model_type"] == "unbottle"
    assert on_disk["base_model_type"] == "gpt2"
    assert on_disk["unbottle"] == model.head.config.to_dict()
    assert on_disk["architectures"] == ["UnbottledGPT2LMHeadModel"]
    for config in (model.config, AutoConfig.from_pretrained(saved / "gpt2")):
        assert isinstance(config, GPT2Config)
        assert config.model_type == config.to_dict()["model_type"] == "gpt2"
        assert not {"auto_map", "base_model_type"} & set(config.to_dict())
        assert json.loads(config.to_json_string())["model_type"] == "unbottle"
        assert json.loads(config.to_json_string(use_diff=False))["base_model_type"] == "gpt2"


def test_detach_gives_the_plain_config_back(saved: Path) -> None:
    model = tiny("gpt2")
    model.config.architectures = ["GPT2LMHeadModel"]
    before = model.config.to_dict()
    unbottle.detach(unbottle.attach(model, "softmax+c"))
    assert type(model.config) is GPT2Config
    assert model.config.to_dict() == before
    loaded = unbottle.detach(unbottle.load(saved / "t5"))  # its encoder and decoder have configs of their own
    configs = [part.config for part in loaded.modules() if hasattr(part, "config")]
    assert {type(config).__name__ for config in configs} == {"T5Config"}
    assert not any(hasattr(config, "unbottle") for config in configs)


def test_detached_model_is_saved_plain(saved: Path) -> None:
    for name in CASES:
        data = json.loads((saved / f"{name}.base" / "config.json").read_text(encoding="utf-8"))
        assert data["model_type"] == name.removesuffix("-untied")
        assert not {"unbottle", "auto_map", "base_model_type", "base_model_name_or_path"} & set(data)


def test_backbone_alone_is_saved_plain(tmp_path: Path) -> None:
    model = case("gpt2")
    model.base_model.save_pretrained(tmp_path / "backbone")
    assert {path.name for path in (tmp_path / "backbone").iterdir()} == {"config.json", "model.safetensors"}
    assert AutoConfig.from_pretrained(tmp_path / "backbone").to_dict()["model_type"] == "gpt2"
    assert "unbottle" not in (tmp_path / "backbone" / "config.json").read_text(encoding="utf-8")
    model.save_pretrained(tmp_path / "all")
    assert torch.equal(logits(unbottle.load(tmp_path / "all")), logits(model))


def test_models_that_share_a_config(tmp_path: Path) -> None:
    plain = tiny("gpt2")
    kind, config = type(plain), plain.config
    first, second = (unbottle.attach(kind(config), method) for method in ("softmax+c", "softmax+r:5"))
    other = kind(config)
    other.save_pretrained(tmp_path / "other")
    first.save_pretrained(tmp_path / "first")
    unbottle.detach(first)
    second.save_pretrained(tmp_path / "second")
    assert str(unbottle.load(tmp_path / "first").head.config.method) == "softmax+c"
    assert str(unbottle.load(tmp_path / "second").head.config.method) == "softmax+r:5"
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path / "other")) is GPT2LMHeadModel


def test_config_can_be_copied_and_pickled(saved: Path) -> None:
    config = AutoConfig.from_pretrained(saved / "t5")
    for twin in (copy.deepcopy(config), copy.copy(config), pickle.loads(pickle.dumps(config))):
        assert type(twin) is type(config)
        assert twin.to_json_string() == config.to_json_string()
    assert type(config).from_dict(config.to_dict()).to_json_string() == config.to_json_string()


def with_torch(model):
    """Through torch.save and torch.load."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


TWINS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "old pickle": lambda model: pickle.loads(pickle.dumps(model, protocol=1)),
    "torch.save": with_torch,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
@pytest.mark.parametrize("name", CASES)
def test_a_model_can_be_copied_and_pickled(name: str, twin) -> None:
    model = case(name)
    made = twin(model)
    assert type(made) is type(model)
    assert made.head.config == model.head.config
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert (made.get_input_embeddings().weight is made.get_output_embeddings().weight) == tied
    torch.testing.assert_close(logits(made), logits(model))
    beams = {"num_beams": 2, "max_new_tokens": 5}
    assert torch.equal(made.generate(WORDS, **beams), model.generate(WORDS, **beams))
    with torch.no_grad():
        next(made.head.parameters()).add_(1)
    assert not torch.equal(next(made.head.parameters()), next(model.head.parameters())), "no memory is shared"
    assert type(unbottle.detach(made)) is model.base_class


def test_a_class_derived_from_one_with_a_head_is_copied_as_itself() -> None:
    model = case("gpt2")
    model.__class__ = type("Derived", (type(model),), {})
    assert type(copy.deepcopy(model)) is type(model)


def test_from_config(saved: Path) -> None:
    for name in ("gpt2", "t5"):
        model = unbottle.load(saved / name)
        fresh = auto(model).from_config(model.config)
        assert type(fresh) is type(model)
        assert fresh.head.config == model.head.config
        assert not fresh.head.L["V"].weight.any()
        fresh.generate(WORDS, num_beams=2, max_new_tokens=3)


def test_tokenizer(saved: Path, directory: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    tokenizer = Tokenizer(WordLevel({"king": 0, "woman": 1, "?": 2}, unk_token="?"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(directory)
    assert AutoTokenizer.from_pretrained(directory).tokenize("king") == ["king"]


def test_bfloat16(tmp_path: Path) -> None:
    for name in ("gpt2", "t5"):
        model = case(name)
        model.save_pretrained(tmp_path / "wide")
        model = model.to(torch.bfloat16)
        model.save_pretrained(tmp_path / "narrow")
        narrowed = unbottle.load(tmp_path / "wide", dtype=torch.bfloat16)
        for loaded in (unbottle.load(tmp_path / "narrow"), narrowed, auto(model).from_pretrained(tmp_path / "narrow")):
            assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
            assert torch.equal(logits(loaded), logits(model))
        assert unbottle.load(tmp_path / "narrow", dtype=torch.float32).head.L["V"].weight.dtype == torch.float32


@pytest.mark.parametrize("name", ["llama", "t5-untied"])
def test_shards(name: str, tmp_path: Path) -> None:
    model = case(name)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert torch.equal(logits(unbottle.load(tmp_path)), logits(model))


@pytest.mark.parametrize("name", ["gpt2", "llama-untied", "t5", "bart"])
def test_resized_vocabulary(name: str, tmp_path: Path) -> None:
    model = case(name)
    model.resize_token_embeddings(75, mean_resizing=False)
    assert model.head.config.vocabulary == model.config.unbottle["vocabulary"] == 75
    model.save_pretrained(tmp_path)
    loaded = unbottle.load(tmp_path)
    assert logits(loaded).shape[-1] == 75
    assert torch.allclose(logits(loaded), logits(model), atol=1e-6)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in loaded.state_dict().items())
    model.resize_token_embeddings(pad_to_multiple_of=16, mean_resizing=False)
    assert model.head.config.vocabulary == 80


def test_too_few_words_for_a_reranker() -> None:
    model = case("gpt2")
    with pytest.raises(unbottle.MethodError, match="k = 20 is more than the 10 words"):
        model.resize_token_embeddings(10)
    assert logits(model).shape[-1] == 61


def test_goes_on_after_loading(tmp_path: Path) -> None:
    model = tiny("gpt2")
    model.config.name_or_path = "openai-community/gpt2"
    shaken(unbottle.attach(model, "softmax+c")).save_pretrained(tmp_path / "first")
    again = unbottle.load(tmp_path / "first").train()
    again(WORDS, labels=WORDS).loss.backward()
    torch.optim.SGD(again.parameters(), lr=0.1).step()
    again.eval().save_pretrained(tmp_path / "second")
    assert torch.equal(logits(unbottle.load(tmp_path / "second")), logits(again))
    assert not torch.equal(logits(again), logits(model))
    assert ModelCard.load(tmp_path / "second" / "README.md").data.base_model == "openai-community/gpt2"
    twin = copy.deepcopy(again)
    assert torch.equal(logits(twin), logits(again))


# -- a base checkpoint in a class with a head


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("name", "method"),
    [("gpt2", "softmax+cpr:5,20+mi"), ("gpt2", "pg"), ("llama", "mos:3+mi"), ("t5", "ps+e"), ("t5", "softmax+cep")],
)
def test_head_starts_as_it_should(name: str, method: str, dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = tiny(name)
    plain.save_pretrained(tmp_path / "base")
    reference = unbottle.attach(tiny(name).to(dtype), method)
    reference.save_pretrained(tmp_path / "head")
    config = AutoConfig.from_pretrained(tmp_path / "head")
    loaded = auto(plain).from_pretrained(tmp_path / "base", config=config, dtype=dtype)
    for key, parameter in reference.head.named_parameters():
        found = loaded.head.get_parameter(key)
        assert found.dtype == dtype
        if key.split(".")[0] in ("L_h", "prior") or key == "gate.v":  # these start at random
            assert found.isfinite().all()
            assert found.any()
            assert found.numel() < 50 or 0.8 < found.std() / parameter.std() < 1.25
        else:
            assert torch.equal(found, parameter), key
    assert {name: int(mark) for name, mark in loaded.head.named_buffers()} == {"form": 1}
