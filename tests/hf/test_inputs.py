"""What the forward of a model with a head refuses, and what its outputs say about what is not there."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from models import SEQ2SEQ, shaken, tiny, words
from transformers import CompileConfig, GenerationConfig, StaticCache

import unbottle
from unbottle.hf.modeling import SkippedLogitsError

CASES = [("gpt2", "softmax+cpr:5,20+mi"), ("llama", "pg"), ("t5", "s+cepr:20+mi"), ("bart", "ps+e")]


def attached(name: str, method: str):
    return shaken(unbottle.attach(tiny(name), method))


# -- arguments


@pytest.mark.parametrize("name", ["t5", "bart", "led"])
def test_an_unknown_argument_of_an_encoder_decoder_is_refused(name: str) -> None:
    model, ids = attached(name, "s+ce"), words()
    for given in ({"decoder_input_id": ids}, {"lables": ids}, {"cu_seq_lens_q": ids[0]}):
        (unknown,) = given
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'. Known: input_ids, attention_ma"):
            model(input_ids=ids, decoder_input_ids=ids, **given)
    accepted = {"token_type_ids": torch.zeros_like(ids), "head_mask": None, "return_dict": True}
    want = model(input_ids=ids, decoder_input_ids=ids).logits
    assert torch.equal(model(input_ids=ids, decoder_input_ids=ids, **accepted).logits, want)


def test_the_further_argument_of_led_reaches_its_encoder() -> None:
    model, ids = attached("led", "s+ce"), words()
    everywhere = torch.ones_like(ids)
    local = model(input_ids=ids, decoder_input_ids=ids).logits
    seen = model(input_ids=ids, decoder_input_ids=ids, global_attention_mask=everywhere).logits
    assert not torch.allclose(seen, local)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
@pytest.mark.parametrize(("name", "method"), CASES)
@pytest.mark.parametrize("training", [False, True])
def test_an_empty_batch_is_refused(name: str, method: str, training: bool, shape: tuple[int, int]) -> None:
    model, empty = attached(name, method).train(training), torch.zeros(shape, dtype=torch.long)
    said = rf"has shape \({shape[0]}, {shape[1]}.*\): expected at least one row and one position"
    for given in ({}, {"labels": empty}):
        with pytest.raises(ValueError, match=f"input_ids {said}"):
            model(input_ids=empty, **given)
    with pytest.raises(ValueError, match=f"inputs_embeds {said}"):
        model(inputs_embeds=torch.zeros(*shape, 32))
    if name in SEQ2SEQ:
        for missing in ("labels", "decoder_input_ids"):
            with pytest.raises(ValueError, match=f"{missing} {said}"):
                model(input_ids=words(), **{missing: empty})


# -- outputs without logits


@pytest.mark.parametrize(("name", "method"), CASES)
def test_logits_that_were_skipped_say_how_to_get_them(name: str, method: str) -> None:
    model, ids = attached(name, method).train(), words()
    outputs = model(input_ids=ids, labels=ids)
    uses = [
        list,
        lambda logits: logits[0],
        lambda logits: logits[:, -1, :],
        len,
        lambda logits: logits.argmax(-1),
        lambda logits: logits.shape,
        lambda logits: logits / 2.0,
        lambda logits: torch.softmax(logits, -1),
        lambda logits: torch.nn.functional.cross_entropy(logits, ids),
    ]
    for use in uses:
        with pytest.raises(SkippedLogitsError, match=r"of outputs\.logits|outputs\.logits\.\w+: the loss was") as error:
            use(outputs.logits)
        assert "skip_logits=False" in str(error.value)
    assert model(input_ids=ids, labels=ids, skip_logits=False).logits.shape == (*ids.shape, 61)
    assert model.eval()(input_ids=ids, labels=ids).logits.shape == (*ids.shape, 61)
    with pytest.raises(SkippedLogitsError):
        _ = model(input_ids=ids, labels=ids, skip_logits=True).logits[0]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_an_output_as_a_mapping_has_no_logits_that_were_skipped(name: str, method: str) -> None:
    """The Trainer, accelerate and DDP gather and rebuild what outputs contain: tensors only."""
    model, ids = attached(name, method).train(), words()
    outputs = model(input_ids=ids, labels=ids)
    assert "logits" not in outputs
    assert outputs.get("logits") is None
    assert all(value is not outputs.logits for value in outputs.to_tuple())
    assert torch.equal(outputs[0], outputs.loss)
    assert type(outputs)(**outputs).loss is outputs.loss
    for twin in (copy.copy(outputs.logits), copy.deepcopy(outputs.logits), pickle.loads(pickle.dumps(outputs.logits))):
        assert repr(twin) == repr(outputs.logits) == "SkippedLogits()"
    assert not hasattr(outputs.logits, "shape")


@pytest.mark.parametrize("name", ["bart", "mbart", "led"])
@torch.no_grad()
def test_a_decoder_that_gets_nothing_reads_the_input(name: str) -> None:
    """As the plain model does, but T5 and others, which refuse it with a head as without one."""
    plain, model = tiny(name), unbottle.attach(tiny(name), "s+ce")
    torch.testing.assert_close(model(words()).logits, plain(words()).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_encoder_outputs_as_a_tuple() -> None:
    """Those of an encoder of a model with a head have the words it read beside its states."""
    model = unbottle.attach(tiny("t5"), "s+ce")
    encoded = model.get_encoder()(words()).to_tuple()
    outputs = model(encoder_outputs=encoded, input_ids=words(), decoder_input_ids=words())
    assert outputs.encoder_hidden_states is None
    assert torch.equal(outputs.logits, model(input_ids=words(), decoder_input_ids=words()).logits)


@pytest.mark.parametrize("method", ["softmax", "softmax+cpr:3,6+mi"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
@torch.no_grad()
def test_a_static_cache_by_hand(name: str, method: str) -> None:
    """Without a mask attention takes the unwritten rest of the cache for words, unless the cache says what it is."""
    model = attached(name, method)
    want, ids = model(words()).logits, words()
    cache = StaticCache(config=model.config, max_cache_len=32)
    steps = [model(part, past_key_values=cache).logits for part in (ids[:, :6], *ids[:, 6:].split(1, dim=1))]
    torch.testing.assert_close(torch.cat(steps, 1), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "compiles"), [("llama", True), ("mistral", False)])
@torch.no_grad()
def test_generate_compiles_what_has_a_fixed_size(name: str, compiles: bool) -> None:
    """All layers of Mistral see a window only, which does not say how many words the head may have to keep."""
    model = attached(name, "softmax+c")
    cache = StaticCache(config=model.config, max_cache_len=32)
    model(words(), past_key_values=cache)
    everywhere = CompileConfig()
    everywhere._compile_all_devices = True
    settings = GenerationConfig(compile_config=everywhere)
    assert model._valid_auto_compile_criteria({"past_key_values": cache}, settings) == compiles


def test_an_output_layer_that_was_quantised_later_is_refused() -> None:
    model = unbottle.attach(tiny("llama"), "softmax+c")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    with pytest.raises(TypeError, match="output embeddings have become a Linear, whose weight the head cannot read"):
        quantised(words())
