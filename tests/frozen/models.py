"""Tiny models whose weights depend on nothing but their names, and every method with a k that fits them.

Weights come from a generator of our own, in the order of their names: the initialisation of transformers and torch may
change, these may not. Only the public API of unbottle is used: internal modules may move.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import torch
import transformers
from torch import Tensor

VOCABULARY, SIZE = 31, 8
NO_DROPOUT = {
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "bart": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {
    "hidden_size": SIZE, "intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": SIZE, "n_layer": 3, "n_head": 2, "n_positions": 64, **NO_DROPOUT["gpt2"]},
    "t5": {
        "d_model": SIZE, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2,
        "dropout_rate": 0.0, "decoder_start_token_id": 0, "tie_word_embeddings": False,
    },
    # Output layers with something of their own, beside T5's: a bias, a soft cap, a scale.
    "bart": {
        "d_model": SIZE, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 64,
        "decoder_start_token_id": 2, "forced_eos_token_id": None, **NO_DROPOUT["bart"],
    },
    "gemma2": {**LLAMA, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 4, "sliding_window": 64},
    "cohere": {**LLAMA, "logit_scale": 0.25},
    "llama": LLAMA,
}  # fmt: skip
ENCODER_DECODER = ("t5", "bart")
DOUBLE = ("gpt2", "bart")  # in float64 throughout: the others normalise in float32, whatever their dtype
RIGHT_PADDED = ("gemma2", "cohere", "llama")  # in float64, transformers gives NaN where there is padding on the left

# The methods of the paper, with its k of 20 and 100 made 3 and 6; every letter alone; and the rest of the grammar.
PAPER = (
    "softmax", "softmax+mi", "mos", "mos+mi", "pg", "ps", "pg+mi", "ps+mi", "copynet", "softmax+r:3+mi",
    "softmax+r:3,6+mi", "softmax+c+mi", "softmax+p+mi", "softmax+cr:3,6+mi", "softmax+cpr:3,6+mi", "mos+cpr:3,6+mi",
    "softmax+wbwr:6+mi", "softmax+cpr:3,6+wbwr:6+mi", "softmax+r:3", "softmax+e", "softmax+ce", "softmax+cer:3",
    "softmax+cepr:3", "softmax+cepr:3+mi",
)  # fmt: skip
LETTERS = ("softmax+c", "softmax+p", "softmax+i")
OTHERS = ("none", "mos:2+cp+wbwr:3", "pg+cr:2", "ps+c+mi:1x2", "copynet+mi", "mos:2+cpir:2,5+mi:2x2")
WITH_SOURCE = tuple(method for method in PAPER if method.startswith(("softmax+e", "softmax+ce")))
METHODS = (*PAPER, *LETTERS, *OTHERS)
FORMS = ("scaled", "paper", "folded", "residual", "steady")


def takes(model: str, method: str) -> bool:
    """Whether a model takes a method: the letter e needs an encoder, and wbwr needs a model without one."""
    parts = [part.partition(":")[0] for part in method.split("+")[1:]]
    if model in ENCODER_DECODER:
        return "wbwr" not in parts
    return not any("e" in part for part in parts)


def model(name: str = "gpt2", dtype: torch.dtype = torch.float64, vocabulary: int = VOCABULARY, **changes: Any) -> Any:
    """A plain model of transformers, in evaluation mode."""
    config = transformers.AutoConfig.for_model(name, vocab_size=vocabulary, **IDS, **CONFIGS[name] | changes)
    auto: Any = transformers.AutoModelForSeq2SeqLM if name in ENCODER_DECODER else transformers.AutoModelForCausalLM
    made = auto.from_config(config, dtype=torch.float32, attn_implementation="eager").to(dtype)
    fill(made)
    return made.eval()


@torch.no_grad()
def fill(module: torch.nn.Module, prefix: str = "") -> None:
    """Every parameter (and BART's bias of logits) from a generator seeded by its name."""
    entries = dict(module.named_parameters())
    entries |= {name: buffer for name, buffer in module.named_buffers() if name.endswith("final_logits_bias")}
    for name in sorted(entries):
        drawn = draw(prefix + name, entries[name].shape)
        is_norm = entries[name].ndim == 1 and name.endswith("weight") and re.search(r"norm|ln_", name)
        entries[name].copy_(1 + 0.2 * drawn if is_norm else 0.4 * drawn)


@torch.no_grad()
def perturb(head: torch.nn.Module) -> None:
    """Far from the start, where a head predicts what the plain model does."""
    for name, parameter in sorted(head.named_parameters()):
        parameter.copy_(0.7 * draw(f"head.{name}", parameter.shape))


def draw(name: str, shape: Any) -> Tensor:
    """Normal numbers that depend on the name alone."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def batch(model: str, vocabulary: int = VOCABULARY) -> dict[str, Tensor]:
    """Two rows with words that return, padding and labels."""
    generator = torch.Generator().manual_seed(7)

    def words(*shape: int) -> Tensor:
        return torch.randint(3, min(vocabulary, 14), shape, generator=generator)

    if model in ENCODER_DECODER:
        ids, mask = words(2, 7), torch.ones(2, 7, dtype=torch.long)
        ids[0, -2:], mask[0, -2:] = 0, 0
        labels = words(2, 6)
        labels[1, -1] = -100
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}
    ids, mask = words(2, 9), torch.ones(2, 9, dtype=torch.long)
    padding = slice(-2, None) if model in RIGHT_PADDED else slice(2)
    ids[1, padding], mask[1, padding] = 0, 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
