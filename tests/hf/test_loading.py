"""Loading by other doors: the model's own class, a plain checkpoint, the Hub."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError, StrictDataclassFieldValidationError
from models import DECODER, shaken, tiny, words
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BartForConditionalGeneration,
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    GPT2LMHeadModel,
    PreTrainedConfig,
    QuantoConfig,
)
from transformers.utils import hub

import unbottle

WITH_HEAD = "this model has a head: load it with unbottle.load"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def saved(name: str, method: str, path: Path) -> Path:
    shaken(unbottle.attach(tiny(name), method)).save_pretrained(path)
    return path


# -- the model's own class, which knows nothing of a head


def test_own_class_refuses(tmp_path: Path) -> None:
    for name, method, kind in (("gpt2", "softmax+c", GPT2LMHeadModel), ("bart", "s+e", BartForConditionalGeneration)):
        for door in (kind, kind.config_class):
            with pytest.raises(StrictDataclassFieldValidationError, match=WITH_HEAD):
                door.from_pretrained(saved(name, method, tmp_path / name))


def test_text_model_of_a_larger_one_refuses(tmp_path: Path) -> None:
    """Gemma 3 without its eyes reads the config of the text model inside the one that was saved."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = DECODER | {"num_hidden_layers": 2, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]}
    config = Gemma3Config(text_config=text, vision_config=sizes | {"image_size": 28, "patch_size": 14})
    model = shaken(unbottle.attach(Gemma3ForConditionalGeneration(config).eval(), "softmax+c+mi:2x2"))
    model.save_pretrained(tmp_path)
    assert torch.equal(unbottle.load(tmp_path)(words()).logits, model(words()).logits)
    assert AutoConfig.from_pretrained(tmp_path).to_dict() == model.config.to_dict() | {"_name_or_path": str(tmp_path)}
    with pytest.raises(StrictDataclassFieldValidationError, match=WITH_HEAD):
        Gemma3ForCausalLM.from_pretrained(tmp_path)


@pytest.mark.full  # test_new_process.py does it in a process that it needs anyway
def test_own_class_refuses_where_unbottle_is_not_imported(tmp_path: Path) -> None:
    code = f"""
import sys, transformers
try:
    transformers.GPT2LMHeadModel.from_pretrained(sys.argv[1])
except Exception as error:
    assert {WITH_HEAD!r} in str(error), error
    print("refused")
assert "unbottle" not in sys.modules
"""
    command = [sys.executable, "-c", code, str(saved("gpt2", "softmax+c", tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)
    assert done.stdout.split() == ["refused"], done.stderr[-3000:]


def test_what_reads_any_config_goes_on(tmp_path: Path) -> None:
    """The Trainer looks into config.json when it resumes."""
    assert (
        PreTrainedConfig.from_json_file(saved("gpt2", "softmax+c", tmp_path) / "config.json").model_type == "unbottle"
    )


@pytest.mark.parametrize("use_cache", [True, False])
def test_use_cache_stays(use_cache: bool, tmp_path: Path) -> None:
    """The refusal is written in its place: also where it is True as usual, which a config leaves out."""
    model = tiny("gpt2")
    model.config.use_cache = use_cache
    unbottle.attach(model, "softmax+c").save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassFieldValidationError, match=WITH_HEAD):
        GPT2LMHeadModel.from_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).use_cache is use_cache
    unbottle.detach(unbottle.load(tmp_path)).save_pretrained(tmp_path / "plain")
    assert "unbottle" not in (tmp_path / "plain" / "config.json").read_text(encoding="utf-8")
    assert GPT2LMHeadModel.from_pretrained(tmp_path / "plain").config.use_cache is use_cache


# -- a plain checkpoint


@torch.no_grad()
def test_copynet_starts_quiet_whatever_the_door(tmp_path: Path) -> None:
    """Logits far below zero, as GPT-2 has them: exp(b) must be small beside them."""
    plain = tiny("gpt2")
    plain.transformer.ln_f.bias.fill_(-3.0)
    plain.transformer.wte.weight.add_(0.5)
    plain.save_pretrained(tmp_path / "plain")
    want = plain(words()).logits.softmax(-1)
    attached = unbottle.attach(plain, "copynet")
    attached.save_pretrained(tmp_path / "head")
    config = AutoConfig.from_pretrained(tmp_path / "head")
    loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", config=config, output_loading_info=True)
    assert "head.gate.b" in info["missing_keys"]
    unchecked = unbottle.attach(GPT2LMHeadModel.from_pretrained(tmp_path / "plain"), "copynet", check=False)
    for model in (attached, loaded, unchecked):
        assert model.head.gate.b < -30
        assert (model(words()).logits.softmax(-1) - want).abs().sum(-1).max() / 2 < 5e-3
    attached.head.gate.b.fill_(-1.5)
    attached.save_pretrained(tmp_path / "trained")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "trained").head.gate.b == -1.5


# -- the Hub


def test_load_head_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shaken(unbottle.attach(tiny("gpt2"), "softmax+cpr:5,20+mi"))
    unbottle.save_head(model, tmp_path / "crown")
    asked = []

    def download(repo: str, filename: str, *, revision: str | None = None, cache_dir: str, **options: object) -> str:
        """As huggingface_hub does: the file into the cache, and beside it what the revision stands for."""
        asked.append((repo, filename, revision))
        if not (tmp_path / "crown" / filename).is_file():
            raise EntryNotFoundError(f"no {filename}")
        folder = Path(cache_dir) / f"models--{repo.replace('/', '--')}"
        for directory in (folder / "refs", folder / "snapshots" / COMMIT):
            directory.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / (revision or "main")).write_text(COMMIT, encoding="utf-8")
        return shutil.copy(tmp_path / "crown" / filename, folder / "snapshots" / COMMIT / filename)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for revision in (None, "v2"):
        loaded = unbottle.load_head(tiny("gpt2"), "royal/crown", revision=revision)
        assert torch.equal(loaded(words()).logits, model(words()).logits)
    files = ("head_config.json", "head_model.safetensors")
    assert asked == [("royal/crown", file, revision) for revision in (None, "v2") for file in files]
    with pytest.raises(ValueError, match=r"royal/crown/head_config\.json: this head was made for hidden_size=32"):
        unbottle.load_head(
            GPT2LMHeadModel(tiny("gpt2").config.__class__(n_embd=16, n_layer=1, n_head=2)), "royal/crown"
        )
    (tmp_path / "crown" / "head_config.json").unlink()
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(OSError, match=r"royal/crown does not appear to have a file named head_config\.json"):
        unbottle.load_head(tiny("gpt2"), "royal/crown")


# -- device maps that transformers computes


@pytest.mark.parametrize("device_map", ["auto", "sequential"])
@pytest.mark.parametrize(("name", "method"), [("gpt2", "softmax+cpr:3,6+mi"), ("llama", "ps"), ("t5", "s+cepr:3")])
def test_automatic_device_maps(name: str, method: str, device_map: str, tmp_path: Path) -> None:
    """Of tied models, too: transformers takes the name `head` for a part of `lm_head`."""
    path = saved(name, method, tmp_path)
    ids = {"input_ids": words()} | ({"decoder_input_ids": words(seed=1)} if name == "t5" else {})
    want = unbottle.load(path)(**ids).logits
    for load in (unbottle.load, type(unbottle.load(path)).from_pretrained):
        loaded = load(path, device_map=device_map)
        torch.testing.assert_close(loaded(**ids).logits, want)


def test_a_model_that_does_not_fit_has_its_head_beside_its_output_embeddings(tmp_path: Path) -> None:
    path = saved("llama", "softmax+cpr:3,6+mi", tmp_path / "model")
    want = unbottle.load(path)(words()).logits
    small = {"cpu": 40_000}  # the rest is on disk
    model = unbottle.load(path, device_map="auto", max_memory=small, offload_folder=str(tmp_path / "disk"))
    places = model.hf_device_map
    assert {*places.values()} == {"cpu", "disk"}
    assert places["head"] == places["lm_head"]
    torch.testing.assert_close(model(words()).logits, want)


def test_sizes_are_those_of_the_dtype_that_is_asked_for(tmp_path: Path) -> None:
    """A tied model that fits in bfloat16 and not in float32."""
    path = saved("llama", "softmax", tmp_path / "model")
    options = {"device_map": "sequential", "offload_folder": str(tmp_path / "disk")}
    for dtype in ("bfloat16", torch.bfloat16, "float32"):
        memory = {"cpu": 3 * sum(p.numel() for p in unbottle.detach(unbottle.load(path)).parameters())}
        model = unbottle.load(path, dtype=dtype, max_memory=memory, **options)
        assert ("disk" in getattr(model, "hf_device_map", {}).values()) == (dtype == "float32")


def test_an_untied_model_is_placed_by_transformers(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("transformers.integrations.accelerate._get_device_map", lambda *_: pytest.fail("by us"))
    path = saved("llama-untied", "softmax+c", tmp_path)
    assert torch.equal(unbottle.load(path, device_map="auto")(words()).logits, unbottle.load(path)(words()).logits)


def test_a_quantised_tied_model_needs_the_name_of_a_device(tmp_path: Path) -> None:
    path = saved("llama", "softmax+c", tmp_path)
    with pytest.raises(ValueError, match=r"device_map='auto': not for a quantised model .* are tied\. Name the device"):
        unbottle.load(path, device_map="auto", quantization_config=QuantoConfig(weights="int8"))


def test_weights_from_memory() -> None:
    """As after merging the shards of a distributed training."""
    model = shaken(unbottle.attach(tiny("llama"), "softmax+c"))
    loaded = type(model).from_pretrained(None, config=model.config, state_dict=model.state_dict())
    assert torch.equal(loaded(words()).logits, model(words()).logits)
