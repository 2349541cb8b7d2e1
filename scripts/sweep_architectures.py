"""Attach a head to every architecture of the auto mappings that can be built small, and write what came of it.

    python scripts/sweep_architectures.py docs/architectures.md

It takes a while and can be stopped: what is finished is kept beside the output, and the next run goes on from there.

Each architecture is built with random weights and a shrunken default config, in a process of its own with a time
limit. It passes if a fresh head predicts what the plain model predicts (attach checks that), and if greedy and beam
decoding with a cache give the tokens of decoding without, with a head that was moved away from its start. What attach
refuses is listed with the reason; an architecture that is neither refused nor right would be WRONG, and the script
exits with 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import warnings
from pathlib import Path

import torch
import transformers
from transformers.models.auto import modeling_auto

import unbottle

SMALL = {
    "vocab_size": 61,
    "hidden_size": 32,
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
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
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
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "decoder_start_token_id": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "is_decoder": True,
}
METHODS = {False: "softmax+cpr:3,6+mi:2x2", True: "softmax+cepr:3+mi:1x3"}
SECONDS = 90


def small_config(config_class: type) -> object:
    """The default config, shrunk wherever a size has a familiar name."""
    names = set(config_class().to_dict())
    chosen = {name: value for name, value in SMALL.items() if name in names}
    if "is_decoder" in chosen and getattr(config_class(), "is_encoder_decoder", False):
        del chosen["is_decoder"]
    config = config_class(**chosen)
    if isinstance(getattr(config, "layer_types", None), list) and len(config.layer_types) != 2:
        config = config_class(**chosen, layer_types=config.layer_types[:2])
    return config


def outcome(name: str, seq2seq: bool) -> tuple[str, str]:
    """What came of one architecture: a word, and the reason."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        config = small_config(transformers.CONFIG_MAPPING[name])
        auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in auto.from_config(config).parameters())
        if size > 50_000_000:
            return "not built", "no small config found by the script"
        model = auto.from_config(config).eval()
        ids = torch.randint(3, 40, (2, 7))
        plain = {use_cache: decode(model, ids, use_cache) for use_cache in (True, False)}
    except Exception as error:
        return "not built", f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
    agrees = all(map(torch.equal, *plain.values()))
    try:
        unbottle.attach(model, METHODS[seq2seq])
    except (ValueError, TypeError, NotImplementedError) as error:
        return "refused", str(error).splitlines()[0]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    try:
        cached, uncached = decode(model, ids, True), decode(model, ids, False)
    except Exception as error:
        return "WRONG", f"decoding failed: {type(error).__name__}: {str(error)[:160]}"
    if all(map(torch.equal, cached, uncached)):
        return "passes", "" if agrees else "although the plain model differs with and without a cache"
    if not agrees:
        return "passes", "up to its cache: the plain model too differs with and without one"
    return "WRONG", "cached and uncached decoding differ"


@torch.no_grad()
def decode(model, ids: torch.Tensor, use_cache: bool) -> list[torch.Tensor]:
    model.generation_config.eos_token_id = None
    model.generation_config.decoder_start_token_id = 0 if model.config.is_encoder_decoder else None
    options = {"max_new_tokens": 5, "do_sample": False, "use_cache": use_cache, "pad_token_id": 0}
    return [model.generate(ids, **options, num_beams=beams) for beams in (1, 3)]


def run(task: tuple[str, bool]) -> tuple[str, str]:
    """`outcome` in a process that may hang or crash."""
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    process = context.Process(target=lambda: child.send(outcome(*task)))
    process.start()
    result = parent.recv() if parent.poll(SECONDS) else ("not built", f"took more than {SECONDS} s or crashed")
    process.kill()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", nargs="*", help="model types")
    arguments = parser.parse_args()
    tasks = [(name, False) for name in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES]
    tasks += [(name, True) for name in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES]
    finished = arguments.output.with_suffix(".jsonl")
    rows = [tuple(json.loads(line)) for line in finished.read_text().splitlines()] if finished.exists() else []
    for name, seq2seq in tasks:
        kind = "encoder-decoder" if seq2seq else "causal"
        if (arguments.only and name not in arguments.only) or any(row[:2] == (name, kind) for row in rows):
            continue
        rows.append((name, kind, *run((name, seq2seq))))
        print(*rows[-1], sep=" | ", flush=True)
        with finished.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    counts = {word: sum(row[2] == word for row in rows) for word in ("passes", "refused", "not built", "WRONG")}
    summary = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(summary)
    lines = [
        "# Architectures",
        "",
        f"What `python scripts/sweep_architectures.py` found with transformers {transformers.__version__}: {summary}.",
        "It builds each architecture of the auto mappings with a small default config and random weights, attaches",
        "a head, and compares decoding with and without a cache, greedy and with beams. *Not built* says nothing about",
        "an architecture: the script could not make a small working model of it.",
        "",
        "| model type | kind | outcome | reason |",
        "|---|---|---|---|",
        *("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in sorted(rows)),
    ]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    finished.unlink()
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
