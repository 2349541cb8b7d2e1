"""Attach a head to every architecture of the auto mappings that can be built small, and write what came of it.

    python scripts/sweep_architectures.py docs/architectures.md

It takes a while and can be stopped: what is finished is kept beside the output, and the next run goes on from there.

Each architecture is built with random weights and a shrunken default config, in a process of its own with a time
limit. It passes if a fresh head predicts what the plain model predicts (attach checks that) and decodes the same words,
and if greedy and beam decoding with a cache give the words of decoding without, with a head that was moved away from
its start. What attach refuses is listed with the reason; an architecture that is neither refused nor right would be
WRONG, and the script exits with 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from small_configs import small_config
from transformers.models.auto import modeling_auto

import unbottle

MAPPINGS = {
    False: modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    True: modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}
METHODS = {False: ("softmax+cpr:3,6+mi:2x2", "softmax+cpr:3,6+mi:1x2"), True: ("softmax+cepr:3+mi:1x3",)}
SECONDS = 90
LARGEST = 50_000_000  # parameters


def outcome(name: str, seq2seq: bool) -> tuple[str, str]:
    """What came of one architecture: a word, and the reason."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        model = build(name, seq2seq)
    except Exception as error:
        return "not built", reason(error)
    ids = torch.randint(3, 40, (2, 7))
    plain: Any = None
    try:
        plain = [decode(model, ids, use_cache) for use_cache in (True, False)]
    except Exception as error:
        failure = reason(error)
    refusals = []
    for method in METHODS[model.config.is_encoder_decoder]:
        try:
            unbottle.attach(model, method)
            break
        except unbottle.UnsupportedArchitectureError as error:
            refusals.append(str(error).splitlines()[0])
        except Exception as error:
            return "WRONG", f"attach failed: {reason(error)}"
    else:
        return "refused", refusals[-1]
    if plain is None:
        return "not built", f"the plain model cannot decode: {failure}"
    agrees = all(map(torch.equal, *plain))
    notes = ["with mi:1xW only"] if refusals else []
    try:
        fresh = decode(model, ids, True)
        shake(model.head)
        cached, uncached = decode(model, ids, True), decode(model, ids, False)
    except Exception as error:
        return "WRONG", f"decoding failed: {reason(error)}"
    if not all(map(torch.equal, fresh, plain[0])):
        return "WRONG", "a fresh head decodes other words than the plain model"
    if all(map(torch.equal, cached, uncached)):
        notes += [] if agrees else ["although the plain model differs with and without a cache"]
        return "passes", "; ".join(notes)
    if not agrees:
        return "passes", "; ".join([*notes, "up to its cache: the plain model too differs with and without one"])
    return "WRONG", "cached and uncached decoding differ"


def build(name: str, seq2seq: bool) -> Any:
    """A small model with random weights."""
    config = small_config(name, causal=not seq2seq)
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    make = auto.from_config
    if type(config) not in auto._model_mapping:
        make = getattr(transformers, MAPPINGS[seq2seq][name])._from_config
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in make(config).parameters())
    if size > LARGEST:
        raise ValueError(f"no small config found by the script ({size / 1e6:.0f}M parameters)")
    return make(config).eval()


@torch.no_grad()
def shake(head: Any) -> None:
    """Move a head away from its start."""
    generator = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)


def reason(error: Exception) -> str:
    """An error in one line."""
    if packages := re.findall(r"requires the (\S+) library", str(error)):
        return f"needs {' and '.join(packages)}, which {'are' if len(packages) > 1 else 'is'} not installed"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) < 160 else text[:157] + '...'}"


@torch.no_grad()
def decode(model, ids: torch.Tensor, use_cache: bool) -> list[torch.Tensor]:
    model.generation_config.eos_token_id = None
    model.generation_config.decoder_start_token_id = getattr(model.config, "decoder_start_token_id", None)
    options = {"max_new_tokens": 5, "do_sample": False, "use_cache": use_cache, "pad_token_id": 0}
    return [model.generate(ids, **options, num_beams=beams) for beams in (1, 3)]


def run(task: tuple[str, bool]) -> tuple[str, str]:
    """`outcome` in a process that may hang or crash."""
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    process = context.Process(target=lambda: child.send(outcome(*task)))
    process.start()
    child.close()
    try:
        result = parent.recv() if parent.poll(SECONDS) else ("not built", f"took more than {SECONDS} s")
    except EOFError:
        result = "WRONG", "its process crashed"
    process.kill()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", nargs="*", help="model types")
    arguments = parser.parse_args()
    tasks = [(name, seq2seq) for seq2seq, names in MAPPINGS.items() for name in names]
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
        "# Supported architectures",
        "",
        "Generated by `python scripts/sweep_architectures.py docs/architectures.md` with transformers "
        f"{transformers.__version__}: {summary}.",
        "",
        "The script builds every architecture of transformers' auto mappings for causal and encoder-decoder models",
        "with a small config and random weights, attaches a head, and compares decoding with and without a cache,",
        "greedy and with beam search. Models that also take images or audio get text only.",
        "",
        "* *with mi:1xW only*: layers below the last one have another shape, so `attach` requires an Mi that does not",
        "  read them.",
        "* *refused*: `attach` raises an error with the reason given.",
        "* *not built*: the script could not build a small working model, which says nothing about the architecture.",
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
