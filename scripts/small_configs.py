"""small_config: the default config of an architecture, shrunk so that a random model of it is built in a second."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import transformers

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
KINDS = ("layer_types", "mlp_layer_types", "layers_block_type", "indexer_types")  # one entry for each layer

SMALL = {
    "vocab_size": 61,
    "hidden_size": 32,
    "hidden_size_global": 32,
    "n_embd": 32,
    "d_model": 32,
    "dim": 32,
    "embed_dim": 32,
    "word_embed_proj_dim": 32,
    "intermediate_size": 48,
    "ffn_dim": 48,
    "ffn_hidden_size": 48,
    "d_ff": 48,
    "d_kv": 8,
    "head_dim": 8,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_decoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "num_key_value_heads": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 128,
    "n_positions": 128,
    "n_ctx": 128,
    "max_encoder_position_embeddings": 128,
    "max_decoder_position_embeddings": 128,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "attention_window": 4,
    "local_radius": 3,
    "sliding_window": 16,
    "rotary_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "vocab_size_per_layer_input": 61,
    "hidden_size_per_layer_input": 8,
    "d_embed": 32,
    "d_inner": 48,
    "d_head": 8,
    "d_state": 8,
    "state_size": 8,
    "ssm_state_size": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_ssm": 64,
    "mamba_chunk_size": 16,
    "linear_head_dim": 8,
    "linear_num_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "num_kv_shared_layers": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
}

SPECIAL: dict[str, dict[str, Any]] = {  # by model type, also of the configs inside others
    "bailing_hybrid": {"n_group": 2, "num_experts_per_tok": 2},
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 50, "num_hidden_layers": 2},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dbrx": {"attn_config": {"rope_theta": 1e4, "clip_qkv": 8.0, "kv_n_heads": 2}},
    "gemma4_assistant": {
        "backbone_hidden_size": 32,
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0},
    },
    "gemma4_unified_assistant": {"backbone_hidden_size": 32},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 16},
    "granite_speech_encoder": {"hidden_dim": 32},
    "granite_speech_plus_encoder": {"hidden_dim": 32},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": {"num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": {"moe_topk": 2, "zero_expert_num": 2, "expert_ffn_hidden_size": 16},
    "mamba2": {"num_heads": 8, "n_groups": 2, "chunk_size": 16},
    "nemotron3_diarization": {"audio_config": {"hidden_size": 32}, "head_config": {"audio_hidden_size": 32}},
    "nemotron3_5_transcribe_word_timestamp": {"blank_token_id": 60},
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2, "chunk_size": 16},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
    },
    "reformer": {
        "attn_layers": ["local", "lsh"],
        "attention_head_size": 8,
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [8, 24],
        "local_attn_chunk_length": 16,
        "lsh_attn_chunk_length": 16,
        "num_buckets": 4,
    },
    "t5gemma": {"decoder_start_token_id": 2},  # its bos, with which its own class shifts labels
    "t5gemma2": {"decoder_start_token_id": 2},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 2, "depths": [1] * 7},
    "xlm": {"emb_dim": 32},
    "xlstm": {"hidden_size": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layers_block_type": ["hybrid", "linear_attention", "hybrid"], "num_hidden_layers": 3},
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
}


def small_config(name: str, causal: bool) -> Any:
    """The config of a model type. What can be an encoder or a decoder is made a decoder if it is to be causal."""
    config = shrink(transformers.CONFIG_MAPPING[name], {})
    if name.startswith("musicgen"):  # its causal model takes the config of the decoder, not the one of its own name
        config = config.decoder
    if causal and hasattr(config, "is_decoder") and not config.is_encoder_decoder:
        config.is_decoder = True
    return config


def shrink(config_class: Any, options: dict[str, Any]) -> Any:
    """The default config, shrunk wherever a size has a familiar name, and so are the configs in it."""
    options = SPECIAL.get(config_class.model_type, {}) | options
    parts = {name: options[name] for name in config_class.sub_configs if name in options}
    default = config_class(**parts)
    values = default.to_dict()
    chosen = {name: value for name, value in SMALL.items() if name in values}
    if "kv_lora_rank" in values:  # compressed keys and values: as many heads as queries have
        chosen["num_key_value_heads"] = chosen["num_attention_heads"]
    if default.is_encoder_decoder:  # decoders start with padding where they do by default
        start = values.get("decoder_start_token_id")
        chosen["decoder_start_token_id"] = 0 if start in (None, values.get("pad_token_id")) else 2
    kinds = {name: list(dict.fromkeys(kind)) for name in KINDS if isinstance(kind := values.get(name), list)}
    depth = max([2, *map(len, kinds.values())])
    chosen |= {name: depth for name in LAYERS if name in values}
    chosen |= {name: list(islice(cycle(kind), depth)) for name, kind in kinds.items()} | options
    for name in config_class.sub_configs:
        if (part := getattr(default, name, None)) is not None:
            chosen[name] = shrink(type(part), parts.get(name, {})).to_dict()
    return config_class(**chosen)
