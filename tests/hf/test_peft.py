"""PEFT: low-rank adapters on the model, the whole head beside them."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from models import shaken, tiny, words
from trainers import trainer, without_dropout

from unbottle.hf import attach
from unbottle.hf.integrations.callbacks import HeadGradientCallback
from unbottle.hf.integrations.guards import BypassedHeadError

peft = pytest.importorskip("peft", reason="LoRA needs peft: pip install 'unbottle[train]'")

CASES = [("gpt2", "softmax+cpr:5,20+mi"), ("llama", "ps+mi"), ("t5", "s+cepr:20+mi"), ("bart", "mos")]
METHODS = pytest.mark.parametrize(("name", "method"), CASES)
ORDERS = pytest.mark.parametrize("order", ["attach, then wrap", "wrap, then attach"])


def lora(name: str, *, head: bool = True, **options):
    fan_in_fan_out = name == "gpt2"
    task = "SEQ_2_SEQ_LM" if name in ("t5", "bart") else "CAUSAL_LM"
    saved = {"modules_to_save": ["head"]} if head else {}
    return peft.LoraConfig(r=4, task_type=task, fan_in_fan_out=fan_in_fan_out, **saved | options)


def wrapped(name: str, method: str, order: str = "attach, then wrap"):
    """The same every time; as if adapter and head had been trained."""
    model = tiny(name)
    torch.manual_seed(0)
    if order == "attach, then wrap":
        model = peft.get_peft_model(shaken(attach(model, method)), lora(name))
    else:  # PEFT cannot save what did not exist when it wrapped: the head is trained, and saved by save_head
        with pytest.warns(UserWarning, match="PEFT will not save this head"):
            model = attach(peft.get_peft_model(model, lora(name, head=False)), method)
        shaken(model.get_base_model())
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            if "modules_to_save" in key:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return without_dropout(model).eval()


def inputs(model) -> dict[str, torch.Tensor]:
    ids = words()
    return {"input_ids": ids} | ({"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {})


@METHODS
@ORDERS
def test_gradients_reach_the_head_and_the_adapter_only(name, method, order):
    model = wrapped(name, method, order).train()
    model(input_ids=words(), labels=words(seed=3)).loss.backward()
    with_gradient = {key for key, parameter in model.named_parameters() if parameter.grad is not None}
    head = {key for key in with_gradient if ".head." in key}
    assert len(head) == len([*attach(tiny(name), method).head.parameters()])
    assert with_gradient - head == {key for key, _ in model.named_parameters() if "lora_" in key}


@METHODS
@ORDERS
@torch.no_grad()
def test_generates_with_beams(name, method, order):
    model = wrapped(name, method, order)
    options = {"input_ids": words(), "num_beams": 3, "max_new_tokens": 5, "do_sample": False}
    assert torch.equal(model.generate(**options), model.generate(**options, use_cache=False))


@METHODS
@torch.no_grad()
def test_a_saved_adapter_brings_the_head_back(name, method, tmp_path):
    model = wrapped(name, method)
    want = model(**inputs(model)).logits
    model.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(attach(tiny(name), method), tmp_path).eval()
    assert torch.equal(again(**inputs(model)).logits, want)


def test_an_adapter_of_another_form_is_refused(tmp_path):
    """An adapter does not say in which form its head was trained, so one from before there were several has no mark."""
    old = peft.get_peft_model(attach(tiny("llama"), "softmax+c", form="paper"), lora("llama"))
    old.save_pretrained(tmp_path)
    with pytest.raises((ValueError, KeyError), match=r"head\.form|in the form 'paper'"):  # PEFT's own, or ours
        peft.PeftModel.from_pretrained(attach(tiny("llama"), "softmax+c"), tmp_path)
    peft.PeftModel.from_pretrained(attach(tiny("llama"), "softmax+c", form="paper"), tmp_path)


@METHODS
def test_head_means_the_head_and_not_lm_head(name, method):
    """PEFT compares the endings of names."""
    plain = tiny(name)
    tied = plain.get_output_embeddings().weight is plain.get_input_embeddings().weight
    model = wrapped(name, method).get_base_model()
    assert tied == (model.get_output_embeddings().weight is model.get_input_embeddings().weight)
    assert not model.get_output_embeddings().weight.requires_grad


@METHODS
def test_a_second_adapter_leaves_lm_head_alone_too(name, method):
    model = wrapped(name, method)
    before = model(**inputs(model)).logits
    model.add_adapter("second", lora(name))
    base = model.get_base_model()
    assert type(base.get_output_embeddings()) is torch.nn.Linear
    assert {"default", "second"} <= {*base.head.modules_to_save}
    assert torch.equal(model(**inputs(model)).logits, before)
    model.set_adapter("second")
    assert not torch.equal(model(**inputs(model)).logits, before)


def test_lm_head_is_trained_too_if_it_is_named():
    both = lora("llama", modules_to_save=["head", "lm_head"])
    model = peft.get_peft_model(attach(tiny("llama-untied"), "softmax+c"), both)
    model(input_ids=words(), labels=words()).loss.backward()
    assert model.get_base_model().lm_head.modules_to_save["default"].weight.grad is not None


@METHODS
@torch.no_grad()
def test_merging_keeps_head_and_logits(name, method):
    model = wrapped(name, method)
    want = model(**inputs(model)).logits
    merged = model.merge_and_unload()
    torch.testing.assert_close(merged(**inputs(merged)).logits, want, atol=1e-5, rtol=1e-5)
    assert merged.head_is_active()


@torch.no_grad()
def test_a_disabled_adapter_gives_the_model_before_training(tmp_path):
    model = tiny("llama")
    torch.manual_seed(0)
    model = shaken(attach(model, "softmax+cpr:5,20+mi"))
    want = model(words()).logits
    with_adapter = peft.get_peft_model(model, lora("llama"))
    with_adapter.get_base_model().head.modules_to_save["default"].L["V"].weight.mul_(2)
    assert not torch.allclose(with_adapter(words()).logits, want)
    with with_adapter.disable_adapter():
        assert torch.equal(with_adapter(words()).logits, want)


def test_a_head_that_peft_froze_is_noticed(tmp_path):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'unbottle[train]'")
    forgotten = peft.get_peft_model(attach(tiny("llama"), "softmax+c"), lora("llama", head=False))
    with pytest.raises(BypassedHeadError, match=r"frozen.*modules_to_save"):
        trainer(forgotten, tmp_path, callbacks=[HeadGradientCallback()]).train()


def test_the_trainer_trains_adapter_and_head(tmp_path):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'unbottle[train]'")
    model = wrapped("gpt2", "softmax+cpr:5,20+mi")
    before = {key: value.clone() for key, value in peft.get_peft_model_state_dict(model).items()}
    twice = {"max_steps": 2}  # keys learn from the second step on
    trainer(model, tmp_path, callbacks=[HeadGradientCallback()], label_smoothing_factor=0.1, **twice).train()
    after = peft.get_peft_model_state_dict(model)
    assert {key for key in before if torch.equal(before[key], after[key])} == {"base_model.model.head.form"}


@pytest.mark.parametrize("method", ["softmax+cpr:5,20+mi", "mos"])
@pytest.mark.parametrize("head", [False, True])
def test_all_linear_leaves_the_head_alone(method, head, tmp_path):
    """Its projections are divided, so a low-rank sum beside them would have another scale, and merge to another."""
    torch.manual_seed(0)
    base = shaken(attach(tiny("llama"), method))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = peft.get_peft_model(copy.deepcopy(base), lora("llama", head=head, target_modules="all-linear"))
    adapted = [key for key, _ in model.named_parameters() if "lora_" in key]
    assert adapted
    assert not [key for key in adapted if ".head." in key]
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        want = model.eval()(words()).logits
        model.save_pretrained(tmp_path)
        again = peft.PeftModel.from_pretrained(base, tmp_path).eval()
        torch.testing.assert_close(again(words()).logits, want)
        torch.testing.assert_close(model.merge_and_unload()(words()).logits, want, atol=1e-5, rtol=1e-5)


def test_a_layer_of_the_head_is_no_target():
    with pytest.raises(ValueError, match=r"Projection.*is not supported"):
        peft.get_peft_model(attach(tiny("llama"), "softmax+c"), lora("llama", head=False, target_modules=["L.V"]))


def test_attaching_to_a_wrapped_model_says_how_to_save_the_head():
    model = peft.get_peft_model(tiny("llama"), lora("llama", head=False))
    with pytest.warns(UserWarning, match=r"PEFT will not save this head.*save_head.*modules_to_save"):
        attach(model, "softmax+c")


def shaken_adapter(model):
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key or "trainable_tokens" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


@pytest.mark.parametrize("order", ["attach, then wrap", "wrap, then attach"])
def test_lora_on_the_output_embeddings(order):
    options = lora("llama", head=False, target_modules=["q_proj", "lm_head"])
    model = tiny("llama-untied")
    if order == "attach, then wrap":
        model = peft.get_peft_model(attach(model, "softmax+c"), options)
    else:
        with pytest.warns(UserWarning, match="PEFT will not save this head"):
            model = attach(peft.get_peft_model(model, options), "softmax+c")
    before = model.eval()(words()).logits
    model.train()(input_ids=words(), labels=words()).loss.backward()
    assert all(p.grad is not None for key, p in model.named_parameters() if "lm_head.lora_" in key)
    want = shaken_adapter(model)(words()).logits.detach()
    assert (want - before).abs().max() > 0.01
    with model.disable_adapter():
        torch.testing.assert_close(model(words()).logits, before)
    torch.testing.assert_close(model.merge_and_unload()(words()).logits, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("path", ["dense", "fused"])
def test_gradients_of_lora_on_the_output_embeddings(path):
    """Those of the plain model, where a head of one softmax stays as it starts."""
    options = lora("llama", head=False, target_modules=["lm_head"])
    gradients = []
    for model in (tiny("llama-untied"), attach(tiny("llama-untied"), "softmax")):
        torch.manual_seed(0)
        model = shaken_adapter(peft.get_peft_model(model, options)).train()
        if head := getattr(model.get_base_model(), "head", None):
            head.path = path
        model(input_ids=words(), labels=words()).loss.backward()
        gradients.append({key: p.grad for key, p in model.named_parameters() if "lora_" in key})
    plain, ours = gradients
    assert plain.keys() == ours.keys()
    for key, value in plain.items():
        torch.testing.assert_close(ours[key], value, atol=1e-6, rtol=1e-4)


@torch.no_grad()
def test_merged_adapters_of_the_output_embeddings_can_be_disabled():
    options = lora("llama", head=False, target_modules=["lm_head"])
    model = peft.get_peft_model(attach(tiny("llama-untied"), "softmax+c"), options).eval()
    before = model(words()).logits
    want = shaken_adapter(model)(words()).logits
    model.merge_adapter()
    torch.testing.assert_close(model(words()).logits, want, atol=1e-5, rtol=1e-5)
    with model.disable_adapter():
        torch.testing.assert_close(model(words()).logits, before, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.lora_bias=True. was passed")  # it cannot be merged
@pytest.mark.parametrize(
    "options",
    [
        peft.LoraConfig(target_modules=["lm_head"], use_dora=True),
        peft.LoraConfig(target_modules=["lm_head"], lora_bias=True),
        peft.IA3Config(target_modules=["lm_head"], feedforward_modules=[]),
        peft.LoHaConfig(target_modules=["lm_head"]),
    ],
    ids=["dora", "bias", "ia3", "loha"],
)
def test_other_adapters_of_the_output_embeddings_are_refused(options):
    options.task_type = "CAUSAL_LM"
    model = peft.get_peft_model(attach(tiny("llama-untied"), "softmax+c"), options)
    with pytest.raises(NotImplementedError, match="adapter 'default': of all adapters, a head reads plain LoRA"):
        model(words())


def test_lora_on_the_output_embeddings_excludes_the_head_from_modules_to_save():
    """PEFT's own error: `head` is an ending of `lm_head`."""
    with pytest.raises(TypeError, match="modules_to_save cannot be applied"):
        peft.get_peft_model(attach(tiny("llama-untied"), "softmax+c"), lora("llama", target_modules=["lm_head"]))


@pytest.mark.filterwarnings("ignore:Unsupported layer type")  # of PEFT's own wrapper
def test_trainable_tokens_of_a_tied_model():
    """PEFT puts a wrapper into its wrapper of lm_head, for the ending of `head`."""
    options = lora("llama", target_modules=["q_proj"], trainable_token_indices=[3, 4, 5])
    model = peft.get_peft_model(attach(tiny("llama"), "softmax+c"), options)
    vocabulary = model.config.vocab_size
    assert not [key for key, p in model.named_parameters() if p.requires_grad and p.shape[0] == vocabulary]
    want = shaken_adapter(model)(words()).logits.detach()
    torch.testing.assert_close(model.merge_and_unload()(words()).logits, want, atol=1e-5, rtol=1e-5)


def test_a_head_that_peft_trains_is_active():
    model = wrapped("llama", "softmax+cpr:5,20+mi")
    assert model.get_base_model().head_is_active()
