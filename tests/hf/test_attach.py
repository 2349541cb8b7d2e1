"""attach and detach: what changes, what does not, what is refused."""

import pytest
import torch
import transformers as tf
from models import CAUSAL, IDS, SEQ2SEQ, shaken, tiny, words

import unbottle
from unbottle.hf import parity
from unbottle.method import PAPER_METHODS, Method


def inputs(name: str) -> dict[str, torch.Tensor]:
    ids = words()
    return {"input_ids": ids, "decoder_input_ids": ids[:, :5]} if name in SEQ2SEQ else {"input_ids": ids}


@pytest.mark.parametrize("name", [*CAUSAL, *SEQ2SEQ])
def test_attach_changes_nothing_but_the_output_layer(name: str) -> None:
    model = tiny(name)
    kind, keys, want = type(model), list(model.state_dict()), model(**inputs(name)).logits
    method = "softmax+cepr:3+mi" if name in SEQ2SEQ else "softmax+cpr:3,6+mi"
    assert unbottle.attach(model, method) is model
    assert isinstance(model, kind)
    assert [key for key in model.state_dict() if not key.startswith("head.")] == keys
    torch.testing.assert_close(model(**inputs(name)).logits, want, atol=1e-4, rtol=1e-4)
    shaken(model)
    assert not torch.allclose(model(**inputs(name)).logits, want, atol=1e-2)
    assert unbottle.detach(model) is model
    assert type(model) is kind
    assert list(model.state_dict()) == keys
    assert torch.equal(model(**inputs(name)).logits, want)


@pytest.mark.parametrize(("method", "moved"), [("pg", r"[45]\d\.\d%"), ("ps", r"[5-9]\d\.\d%")])
def test_gates_of_the_paper_attach_and_say_what_they_change(method: str, moved: str) -> None:
    with pytest.warns(UserWarning, match=rf"gate_start 0: the fresh {method.upper()} moves up to {moved}"):
        model = unbottle.attach(tiny("gpt2"), method, gate_start=0)
    assert model.head.config.gate_start == 0


@pytest.mark.parametrize("method", [name for name in PAPER_METHODS if "wbw" not in name])
def test_every_method_attaches(method: str) -> None:
    """GPT-2 has negative logits: CopyNet is calibrated for that."""
    shrunk = method.replace("20,100", "3,6").replace("R:20", "R:3")
    for name in ("gpt2", "bart"):
        if name == "bart" or "e" not in Method.parse(shrunk).letters:
            model = tiny(name)
            want = model(**inputs(name)).logits.softmax(-1)
            got = unbottle.attach(model, shrunk)(**inputs(name)).logits.softmax(-1)
            assert (got - want).abs().sum(-1).max() / 2 < 5e-3


def test_loss_is_the_loss_of_the_model_at_the_start() -> None:
    for name in ("gpt2", "llama", "gemma2", "t5", "bart"):
        model, ids = tiny(name), words()
        labels = ids.clone()
        labels[0, 3:5] = -100
        want = model(input_ids=ids, labels=labels).loss
        got = unbottle.attach(model, "softmax+c+mi")(input_ids=ids, labels=labels).loss
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
        halves = model(input_ids=ids, labels=labels, num_items_in_batch=torch.tensor(32)).loss
        count = int((labels != -100).sum()) - (0 if name in SEQ2SEQ else int((labels[:, 0] != -100).sum()))
        torch.testing.assert_close(halves, got * count / 32, atol=1e-5, rtol=1e-5)


def test_what_attach_refuses() -> None:
    with pytest.raises(TypeError, match="attach to a Linear: expected a transformers model"):
        unbottle.attach(torch.nn.Linear(2, 2), "softmax")
    with pytest.raises(ValueError, match=r"already has a head \(softmax\+c\). Use detach first"):
        unbottle.attach(unbottle.attach(tiny("gpt2"), "softmax+c"), "softmax")
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no head to detach"):
        unbottle.detach(tiny("gpt2"))
    with pytest.raises(unbottle.MethodError, match="this model has no encoder"):
        unbottle.attach(tiny("gpt2"), "softmax+e")
    taken = tiny("gpt2")
    taken.head = torch.nn.Linear(2, 2)
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="already defines an attribute `head`"):
        unbottle.attach(taken, "softmax+c")
    patched = tiny("gpt2")
    patched.forward = patched.forward
    with pytest.raises(ValueError, match="was replaced on the instance"):
        unbottle.attach(patched, "softmax+c")
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="has no output embeddings"):
        unbottle.attach(tf.GPT2Model(tiny("gpt2").config), "softmax+c")


def test_an_output_layer_of_another_kind_is_refused_and_the_model_left_alone() -> None:
    torch.manual_seed(0)
    config = tf.BertConfig(
        **IDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, is_decoder=True
    )
    model = tf.BertLMHeadModel(config).eval()
    want = model(words()).logits
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="BertLMHeadModel is not supported: its words'"):
        unbottle.attach(model, "softmax+c")
    assert type(model) is tf.BertLMHeadModel
    assert not hasattr(model, "head")
    assert torch.equal(model(words()).logits, want)


def test_a_cache_that_can_not_hold_the_state_is_refused() -> None:
    config = tf.MambaConfig(vocab_size=61, hidden_size=32, num_hidden_layers=2, state_size=4)
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="keeps no past_key_values"):
        unbottle.attach(tf.MambaForCausalLM(config).eval(), "softmax+c")


def test_attach_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = tf.GPT2LMHeadModel(tf.GPT2Config())
    unbottle.attach(model, "softmax+cpr:20,100+mi")
    assert round(model.num_parameters() / 1e6, 1) == 136.8
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_encoder_outputs_without_words_are_refused() -> None:
    model = unbottle.attach(tiny("bart"), "softmax+e")
    encoded = tuple(model.get_encoder()(input_ids=words())[:1])
    with pytest.raises(
        ValueError, match="reads the words of the encoder input, and these encoder_outputs do not carry"
    ):
        model(encoder_outputs=encoded, decoder_input_ids=words())
    want = model(input_ids=words(), decoder_input_ids=words()).logits
    got = model(encoder_outputs=encoded, input_ids=words(), decoder_input_ids=words()).logits
    assert torch.equal(got, want)


def test_words_of_embeddings_can_be_told() -> None:
    model, ids = shaken(unbottle.attach(tiny("llama"), "softmax+cpr:3,6+mi")), words()
    embeds = model.get_input_embeddings()(ids)
    torch.testing.assert_close(model(inputs_embeds=embeds, context_ids=ids).logits, model(ids).logits)
    assert not torch.allclose(model(inputs_embeds=embeds).logits, model(ids).logits)


def test_the_probe_runs_in_evaluation_mode_and_restores_training() -> None:
    model = tiny("gpt2").train()
    unbottle.attach(model, "softmax+c")
    assert model.training
    assert parity.probe(unbottle.detach(model)).requires_grad is False
