"""save_pretrained, load, the Auto classes: what comes back is what was saved, or an error that says what is wrong."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import EntryNotFoundError
from models import shaken, words
from models import tiny as shared
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import unbottle
from unbottle.hf.attach import unbottled

CASES = {
    "gpt2": "softmax+cpr:5,20+mi",
    "llama": "mos:2+cr:7+mi:2x2",
    "llama-untied": "pg+mi",
    "t5": "softmax+cepr:20+mi",
    "t5-untied": "softmax+cer:9",
    "bart": "ps+e",
}
WORDS = words()


def tiny(name: str):
    """A tiny model with a config of its own."""
    return copy.deepcopy(shared(name))


def case(name: str, method: str = ""):
    """A tiny model with a trained head."""
    model = tiny(name.removesuffix("-untied") if name == "t5-untied" else name)
    if name == "t5-untied":  # the config always says tied: what counts is the tensors
        model.lm_head.weight = nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
    return shaken(unbottle.attach(model, method or CASES[name]))


def auto(model):
    return AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM


@torch.no_grad()
def logits(model) -> torch.Tensor:
    decoder = {"decoder_input_ids": WORDS.flip(1)} if model.config.is_encoder_decoder else {}
    return model(input_ids=WORDS, **decoder).logits.contiguous()


def edit(path: Path, change) -> None:
    """Change a JSON file in place."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every case in a directory of its own, with its logits and, for its base model, the head alone."""
    root = tmp_path_factory.mktemp("saved")
    for name in CASES:
        model = case(name)
        model.save_pretrained(root / name)
        save_file({"logits": logits(model)}, root / f"{name}.safetensors")
        unbottle.save_head(model, root / f"{name}.head")
        unbottle.detach(model).save_pretrained(root / f"{name}.base")
    return root


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    case("gpt2").save_pretrained(tmp_path)
    return tmp_path


# -- round trips


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
        expected = {"config.json", "generation_config.json", "model.safetensors", "README.md", "unbottle_shim.py"}
        assert files == expected
        with safe_open(saved / name / "model.safetensors", framework="pt") as weights:
            names = set(weights.keys())
        with safe_open(saved / f"{name}.base" / "model.safetensors", framework="pt") as weights:
            base = set(weights.keys())
        assert base < names
        assert all(key.startswith("head.") for key in names - base)
    shim = (saved / "gpt2" / "unbottle_shim.py").read_text(encoding="utf-8").splitlines()
    assert len(shim) == 1
    assert shim[0].startswith("from unbottle.hub import")


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


def test_from_config(saved: Path) -> None:
    for name in ("gpt2", "t5"):
        model = unbottle.load(saved / name)
        fresh = auto(model).from_config(model.config)
        assert type(fresh) is type(model)
        assert fresh.head.config == model.head.config
        assert torch.equal(fresh.head.L["V"].weight[:, :32], torch.eye(32))
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


# -- new processes

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
        capture_output=True, text=True, env=os.environ | settings, stdin=subprocess.DEVNULL, timeout=100,
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


# -- refusals


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
        (lambda data: data.update(unbottle="softmax"), "found 'softmax'"),
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
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"{directory}: the weights do not belong to config.json: {message}"):
        unbottle.load(directory)


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


# -- the card


def test_card(tmp_path: Path) -> None:
    model = tiny("gpt2")
    model.config.name_or_path = "openai-community/gpt2"
    unbottle.attach(model, "softmax+cpr:5,20+mi").save_pretrained(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.base_model == "openai-community/gpt2"
    assert card.data.library_name == "unbottle"
    assert {"unbottle", "gpt2"} <= set(card.data.tags)
    added = sum(parameter.numel() for parameter in model.head.parameters())
    for text in ("# Softmax + CPR:5,20 + Mi", "`softmax+cpr:5,20+mi`", "unbottle.load(", f"| {added:,} |"):
        assert text in card.text


def test_card_does_not_tell_where_things_lie(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    for place in (saved / "gpt2.base", Path("gpt2.base")):
        model = unbottle.attach(AutoModelForCausalLM.from_pretrained(place), "softmax+c")
        model.save_pretrained(tmp_path / place.name)
        card = ModelCard.load(tmp_path / place.name / "README.md")
        (tmp_path / place.name / "README.md").unlink()
        assert card.data.base_model is None
        assert "gpt2.base" not in card.content


def test_a_card_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    case("gpt2").save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("by_saving", [False, True])
def test_push(by_saving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push puts an empty card of its own into the directory, and uploads only what changed while it saved."""
    uploaded: dict[str, str] = {}

    def commit(operations, **_) -> None:
        for operation in operations:
            source = operation.path_or_fileobj
            is_text = operation.path_in_repo.endswith((".md", ".json", ".py"))
            uploaded[operation.path_in_repo] = Path(source).read_text(encoding="utf-8") if is_text else ""

    def no_card(*_, **__):
        raise EntryNotFoundError("none")

    hub = SimpleNamespace(create_repo=lambda *_, **__: SimpleNamespace(repo_id="me/mine"), create_commit=commit)
    monkeypatch.setattr("transformers.utils.hub.hf_api", lambda: hub)
    monkeypatch.setattr("transformers.modeling_utils.hf_api", lambda: hub)
    monkeypatch.setattr("transformers.utils.hub.ModelCard.load", no_card)
    model = case("gpt2")
    if by_saving:
        model.save_pretrained(tmp_path / "mine", push_to_hub=True)
    else:
        model.push_to_hub("mine")
    assert {"config.json", "model.safetensors", "unbottle_shim.py", "README.md"} <= set(uploaded)
    assert "# Softmax + CPR:5,20 + Mi" in uploaded["README.md"]
