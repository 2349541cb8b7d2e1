"""Tiny models with random weights, one per architecture, built in milliseconds."""

from __future__ import annotations

import copy
import functools
import logging

import torch
import transformers as tf

logging.getLogger("transformers").setLevel(logging.ERROR)

VOCABULARY, PAD, EOS = 61, 0, 1
IDS = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": 2}
DECODER = IDS | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
BART = IDS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 128,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    "forced_bos_token_id": None,
}
T5 = IDS | {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": PAD,
}
MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}

CAUSAL = {
    "gpt2": lambda: tf.GPT2Config(**IDS, n_embd=32, n_layer=3, n_head=4, n_positions=128),
    "llama": lambda: tf.LlamaConfig(**DECODER, tie_word_embeddings=True),
    "llama-untied": lambda: tf.LlamaConfig(**DECODER, tie_word_embeddings=False),
    "qwen3": lambda: tf.Qwen3Config(**DECODER, head_dim=8),
    "smollm3": lambda: tf.SmolLM3Config(**DECODER),
    "gemma2": lambda: tf.Gemma2Config(**DECODER, head_dim=8, sliding_window=6, final_logit_softcapping=2.0),
    "mistral": lambda: tf.MistralConfig(**DECODER, sliding_window=6),
    "granite": lambda: tf.GraniteConfig(**DECODER, logits_scaling=0.25),
    "cohere": lambda: tf.CohereConfig(**DECODER, logit_scale=0.5),
    "mixtral": lambda: tf.MixtralConfig(**DECODER, **MOE),
    "phi": lambda: tf.PhiConfig(**DECODER),
    "opt": lambda: tf.OPTConfig(
        **IDS, hidden_size=32, ffn_dim=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128,
        word_embed_proj_dim=32,
    ),
    "gpt_neox": lambda: tf.GPTNeoXConfig(**{k: v for k, v in DECODER.items() if k != "num_key_value_heads"}),
}  # fmt: skip
SEQ2SEQ = {
    "t5": lambda: tf.T5Config(**T5),
    "mt5": lambda: tf.MT5Config(**T5),
    "umt5": lambda: tf.UMT5Config(**T5),
    "bart": lambda: tf.BartConfig(**BART),
    "mbart": lambda: tf.MBartConfig(**BART),
    "pegasus": lambda: tf.PegasusConfig(**BART | {"decoder_start_token_id": PAD}),
    "marian": lambda: tf.MarianConfig(**BART | {"decoder_start_token_id": PAD}),
    "led": lambda: tf.LEDConfig(
        **{k: v for k, v in BART.items() if k != "max_position_embeddings"},
        max_encoder_position_embeddings=128, max_decoder_position_embeddings=128, attention_window=4,
    ),
    "longt5": lambda: tf.LongT5Config(**T5, local_radius=3),
}  # fmt: skip


@functools.cache
def _state(name: str) -> tuple[type, object, dict]:
    torch.manual_seed(3)
    config = (CAUSAL | SEQ2SEQ)[name]()
    auto = tf.AutoModelForSeq2SeqLM if name in SEQ2SEQ else tf.AutoModelForCausalLM
    model = auto.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than at the start of training: words must differ clearly
            parameter.add_(torch.randn_like(parameter) * 0.15)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    return type(model), config, {key: value.clone() for key, value in model.state_dict().items()}


def tiny(name: str):
    """A fresh copy of a tiny model, in evaluation mode; no end of sequence, so that all generations have one length."""
    kind, config, state = _state(name)
    model = kind(copy.deepcopy(config))  # attach writes into the config of its model
    model.load_state_dict(state)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = PAD
    return model.eval()


def shaken(model, amount: float = 0.3, seed: int = 5):
    """The head of this model, moved far from its start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.head.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            divided = model.head.config.learnt.scaled and parameter.ndim == 2  # by the head itself
            parameter.add_(noise * amount / (1 if divided else max(parameter.shape[-1:].numel(), 1) ** 0.5))
        if model.head.gate is not None:  # as if copying had been learned
            for name in ("b_ptr", "b"):
                bias = getattr(model.head.gate, name, None)
                if bias is not None and bias.ndim == 0:
                    bias.fill_(-1.0)
    return model


def words(batch: int = 2, length: int = 9, seed: int = 0) -> torch.Tensor:
    """Random words, some of them repeated, none of them special."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY // 2, (batch, length), generator=generator)
