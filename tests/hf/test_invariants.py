"""What generate() returns has the shape that it has without a head, in every mode; a fresh head changes no token.

These are the invariants that transformers' own generation tests check (its packages do not contain those tests).
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from models import CAUSAL, PAD, SEQ2SEQ, shaken, tiny, words
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.utils import ModelOutput

import unbottle
from unbottle.hf.cache import CROP_KEEPS

BASES = ("gpt2", "llama", "qwen3", "gemma2", "t5", "bart")
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "several samples": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 2},
    "several beams": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 2.0},
    "sampled beams": {"num_beams": 2, "do_sample": True},
    "no cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "chunks of a prompt": {"prefill_chunk_size": 4},
    "prompt lookup": {"prompt_lookup_num_tokens": 2, "eos_token_id": 3},  # transformers 5.12 fails without one
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [7, 8]]},
    "guidance": {"guidance_scale": 1.5},
    "normalised": {"renormalize_logits": True, "min_new_tokens": 3},
}
NOT_FOR: dict[str, tuple[str, ...]] = {
    "chunks of a prompt": (*SEQ2SEQ,),
    "guidance": (*SEQ2SEQ,),
    "prompt lookup": ("gemma2",) if CROP_KEEPS else (),  # transformers 5.12 cannot crop sliding windows
}


def method(name: str) -> str:
    return "softmax+cepr:3,6+mi" if name in SEQ2SEQ else "softmax+cpr:3,6+mi"


def eager(model: Any) -> Any:
    model.set_attn_implementation("eager")  # the only one that returns attentions
    return model


def structure(value: Any) -> Any:
    """Types, lengths and shapes, without the values."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, EncoderDecoderCache):
        return structure(value.self_attention_cache), structure(value.cross_attention_cache)
    if isinstance(value, DynamicCache):
        layers = [
            (type(layer).__name__, layer.is_sliding, structure((layer.keys, layer.values))) for layer in value.layers
        ]
        return type(value).__name__, layers, value.is_sliding, value.get_seq_length(), value.is_compileable
    if isinstance(value, ModelOutput):
        return {name: structure(value[name]) for name in value}
    if isinstance(value, (tuple, list)):
        return [structure(member) for member in value]
    return type(value).__name__


def made(model: Any, ids: Tensor, **options: Any) -> Any:
    torch.manual_seed(0)
    outputs = ("scores", "logits", "attentions", "hidden_states")
    everything = {f"output_{name}": True for name in outputs} | {"return_dict_in_generate": True}
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, **everything | options)


@pytest.mark.parametrize("mode", [*OPTIONS])
@pytest.mark.parametrize("name", BASES)
def test_outputs_of_generate(name: str, mode: str) -> None:
    if name in NOT_FOR.get(mode, ()):
        pytest.skip("the plain model refuses it")
    ids = words(1 if "lookup" in mode else 2)
    plain, attached = eager(tiny(name)), eager(unbottle.attach(tiny(name), method(name)))
    wanted, got = (made(model, ids, **OPTIONS[mode]) for model in (plain, attached))
    assert structure(got) == structure(wanted)
    assert torch.equal(got.sequences, wanted.sequences)


@pytest.mark.parametrize("name", [*CAUSAL, *SEQ2SEQ])
def test_a_cache_has_as_many_layers_as_the_model(name: str) -> None:
    plain, attached = tiny(name), unbottle.attach(tiny(name), "softmax+cpr:3,6+mi")
    wanted, got = (made(model, words(), output_attentions=False).past_key_values for model in (plain, attached))
    assert len(got) == len(wanted)
    assert structure(got) == structure(wanted)


def test_layers_of_later_caches_are_plain() -> None:
    """The class of a layer that carries the state is nobody else's."""
    model = unbottle.attach(tiny("mistral"), "softmax+c")
    first = made(model, words(), output_attentions=False).past_key_values
    fresh = DynamicCache(config=model.config)
    assert [type(layer) for layer in fresh.layers] == [type(first.layers[0])] * len(first.layers)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copied_cache_has_the_state(again: Any) -> None:
    model, ids = shaken(unbottle.attach(tiny("llama"), "softmax+cpr:3,6+mi")), words(length=12)
    with torch.no_grad():
        cache = model(ids[:, :8], use_cache=True).past_key_values
        got = model(ids[:, 8:], past_key_values=again(cache)).logits
        torch.testing.assert_close(got, model(ids).logits[:, 8:], atol=1e-5, rtol=1e-5)


def causal_mask(real: Tensor, dtype: torch.dtype) -> Tensor:
    """Four dimensions: True where a position may be seen, or 0 there and very low elsewhere."""
    seen = real[:, None, None].bool() & torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
    return seen if dtype == torch.bool else torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(dtype).min)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bart"])
def test_masks_of_four_dimensions(name: str, dtype: torch.dtype) -> None:
    model, ids = shaken(unbottle.attach(tiny(name), method(name))), words()
    real = torch.ones_like(ids)
    real[1, :3] = 0
    places = (real.cumsum(1) - 1).clamp(min=0)
    prefix = {"input_ids": words(seed=4)} if name in SEQ2SEQ else {}
    which = "decoder_" if name in SEQ2SEQ else ""
    options = {} if name in SEQ2SEQ else {"position_ids": places}
    with torch.no_grad():
        wanted, got = (
            model(**prefix, **{f"{which}input_ids": ids, f"{which}attention_mask": mask}, **options).logits
            for mask in (real, causal_mask(real, dtype))
        )
    torch.testing.assert_close(got[real.bool()], wanted[real.bool()], atol=1e-5, rtol=1e-5)


def test_a_mask_with_a_past() -> None:
    model, ids = shaken(unbottle.attach(tiny("llama"), "softmax+cpr:3,6+mi")), words()
    mask = causal_mask(torch.ones_like(ids), torch.float32)
    with torch.no_grad():
        cache = model(ids[:, :5], attention_mask=mask[..., :5, :5], use_cache=True).past_key_values
        got = model(ids[:, 5:], attention_mask=mask[..., 5:, :], past_key_values=cache).logits
        torch.testing.assert_close(got, model(ids).logits[:, 5:], atol=1e-5, rtol=1e-5)


def test_a_mask_that_hides_words_is_refused() -> None:
    model, ids = unbottle.attach(tiny("llama"), "softmax+c"), words()
    mask = causal_mask(torch.ones_like(ids), torch.float32)
    mask[:, :, 5:, :5] = mask.min()  # two documents
    with pytest.raises(ValueError, match="lets positions see other words than those before them"):
        model(ids, attention_mask=mask)
    places = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]]).expand_as(ids)
    apart = model(ids, attention_mask=mask, position_ids=places, use_cache=False).logits
    torch.testing.assert_close(apart[:, 5:], model(ids[:, 5:]).logits, atol=1e-5, rtol=1e-5)


def test_keywords_of_the_model_pass() -> None:
    plain, attached, ids = tiny("gpt2"), unbottle.attach(tiny("gpt2"), "softmax+cpr:3,6+mi"), words()
    kinds = torch.randint(3, 9, ids.shape, generator=torch.Generator().manual_seed(2))
    wanted, got = (made(m, ids, token_type_ids=kinds, output_attentions=False).sequences for m in (plain, attached))
    assert torch.equal(got, wanted)
    with pytest.raises(ValueError, match="nonsense"):
        made(attached, ids, nonsense=kinds)


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_a_random_assistant_of_an_encoder_decoder_model(name: str) -> None:
    model, ids = shaken(unbottle.attach(tiny(name), method(name))), words(1)
    torch.manual_seed(7)
    assistant = type(tiny(name))(tiny(name).config).eval()
    assistant.generation_config.eos_token_id, assistant.generation_config.pad_token_id = None, PAD
    for helper in (assistant, shaken(unbottle.attach(assistant, method(name)), seed=8)):
        got = made(model, ids, assistant_model=helper, output_attentions=False)
        assert torch.equal(got.sequences, made(model, ids, output_attentions=False).sequences)
