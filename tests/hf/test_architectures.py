"""What some architectures do differently, and what attach says of those that it cannot take."""

import pytest
import torch
import transformers as tf
from models import BART, DECODER, IDS, words

import unbottle
from unbottle.hf.output_scaling import Quirks

BERT = IDS | {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
MOE = {"num_local_experts": 2, "intermediate_size_mlp": 48}
MLLAMA = DECODER | {"cross_attention_layers": []}


def built(kind: type, config: object):
    torch.manual_seed(3)
    model = kind(config).eval()
    model.generation_config.eos_token_id = None
    return model


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (tf.Llama4ForCausalLM, lambda: tf.Llama4TextConfig(**DECODER, **MOE, head_dim=8)),
        (tf.MllamaForCausalLM, lambda: tf.MllamaConfig(text_config=MLLAMA).text_config),
    ],
)
def test_text_models_without_the_base_model_that_they_name(kind: type, config) -> None:
    """Their base_model_prefix is that of the larger model around them, so base_model is the model itself."""
    model = built(kind, config())
    assert model.base_model is model
    want = model(words()).logits
    unbottle.attach(model, "softmax+cpr:3,6+mi:2x2")
    torch.testing.assert_close(model(words()).logits, want, atol=1e-4, rtol=1e-4)
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(model.generate(words(), **options), model.generate(words(), use_cache=False, **options))


def test_layers_of_another_shape() -> None:
    """Gemma 3n carries four streams from layer to layer. Its last state is like any other model's."""
    config = tf.Gemma3nTextConfig(
        **DECODER,
        head_dim=8,
        layer_types=["full_attention"] * 3,
        num_kv_shared_layers=0,
        vocab_size_per_layer_input=61,
        hidden_size_per_layer_input=8,
        activation_sparsity_pattern=[0.0] * 3,
    )
    model = built(tf.Gemma3nForCausalLM, config)
    with pytest.raises(unbottle.UnsupportedArchitectureError, match=r"mi:2x3 reads 2 layers.*mi:1x3 reads the last"):
        unbottle.attach(model, "softmax+c+mi:2x3")
    assert type(model) is tf.Gemma3nForCausalLM
    want = model(words()).logits
    torch.testing.assert_close(unbottle.attach(model, "softmax+c+mi:1x3")(words()).logits, want, atol=1e-4, rtol=1e-4)


def test_more_layers_than_the_model_has() -> None:
    model = built(tf.GPT2LMHeadModel, tf.GPT2Config(**IDS, n_embd=32, n_layer=2, n_head=4))
    with pytest.raises(unbottle.UnsupportedArchitectureError, match=r"mi:5x2 reads 5 layers, and GPT2LMHeadModel does"):
        unbottle.attach(model, "softmax+mi:5x2")


def test_output_embeddings_of_another_size() -> None:
    model = built(tf.ElectraForCausalLM, tf.ElectraConfig(**BERT, embedding_size=16, is_decoder=True))
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="states are 32 wide and its output embeddings 16"):
        unbottle.attach(model, "softmax+c")


def test_decoder_with_an_output_layer_of_its_own() -> None:
    config = tf.EncoderDecoderConfig.from_encoder_decoder_configs(tf.BertConfig(**BERT), tf.BertConfig(**BERT))
    model = built(tf.EncoderDecoderModel, config)
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="its decoder, a BertLMHeadModel, brings an output"):
        unbottle.attach(model, "softmax+e")


def test_encoder_without_a_config() -> None:
    sizes = {key: value for key, value in BART.items() if key != "vocab_size"}
    model = built(tf.FSMTForConditionalGeneration, tf.FSMTConfig(**sizes, src_vocab_size=61, tgt_vocab_size=61))
    with pytest.raises(unbottle.UnsupportedArchitectureError, match="FSMTForConditionalGeneration is not supported"):
        unbottle.attach(model, "softmax+e")


def test_rows_of_the_table_that_no_tiny_model_has() -> None:
    assert Quirks.of(tf.GPT2Config(output_logit_soft_cap=7.0)) == Quirks(softcap=7.0)  # xlstm
    assert Quirks.of(tf.GPT2Config(logits_mup_width_multiplier=4.0)) == Quirks(scale=0.25)  # inkling
