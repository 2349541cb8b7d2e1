"""A tiny Llama and its tokenizer in one GGUF file, as llama.cpp would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from byte_pairs import byte_pairs
from transformers import LlamaConfig, LlamaForCausalLM

HEADS, KEYS = 4, 2
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def llama(vocabulary: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=HEADS,
        num_key_value_heads=KEYS, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path) -> tuple[LlamaForCausalLM, Any]:
    """The file, and the model and tokenizer that are in it."""
    import gguf

    tokenizer = byte_pairs()
    model = llama(len(tokenizer))
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    spelling = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in spelling])
    writer.add_token_types([3 if token == "<eos>" else 1 for token, _ in spelling])
    merges = tokenizer.backend_tokenizer.to_str()
    import json

    pairs = json.loads(merges)["model"]["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in pairs])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, value in model.state_dict().items():
        if name != "lm_head.weight":  # tied
            writer.add_tensor(*tensor(name, value.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, tokenizer


def tensor(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    """The name that llama.cpp gives a weight, and the order in which it keeps the rows of queries and keys."""
    if name == "model.embed_tokens.weight":
        return "token_embd.weight", value
    if name == "model.norm.weight":
        return "output_norm.weight", value
    _, _, layer, *part, _ = name.split(".")
    short = NAMES[".".join(part)]
    if short in ("attn_q", "attn_k"):
        heads = HEADS if short == "attn_q" else KEYS
        rows = value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:])
        value = rows.swapaxes(1, 2).reshape(value.shape)
    return f"blk.{layer}.{short}.weight", np.ascontiguousarray(value)
