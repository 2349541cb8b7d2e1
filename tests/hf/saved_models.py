"""Tiny models with trained heads, for the tests of what is saved and loaded."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from models import shaken, words
from models import tiny as shared
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
)

import unbottle

CASES = {
    "gpt2": "softmax+cpr:5,20+mi",
    "llama": "mos:2+cr:7+mi:2x2",
    "llama-untied": "pg+mi",
    "t5": "softmax+cepr:20+mi",
    "t5-untied": "softmax+cer:9",
    "bart": "ps+e",
}
WORDS = words()


def tiny(name: str):
    """A tiny model with a config of its own."""
    return copy.deepcopy(shared(name))


def case(name: str, method: str = ""):
    """A tiny model with a trained head."""
    model = tiny(name.removesuffix("-untied") if name == "t5-untied" else name)
    if name == "t5-untied":  # the config always says tied: what counts is the tensors
        model.lm_head.weight = nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
    return shaken(unbottle.attach(model, method or CASES[name]))


def auto(model):
    return AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM


@torch.no_grad()
def logits(model) -> torch.Tensor:
    decoder = {"decoder_input_ids": WORDS.flip(1)} if model.config.is_encoder_decoder else {}
    return model(input_ids=WORDS, **decoder).logits.contiguous()


def edit(path: Path, change) -> None:
    """Change a JSON file in place."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
