"""A tiny model with a head, and a text for it."""

from __future__ import annotations

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from unbottle.data import Windows
from unbottle.hf import attach
from unbottle.train import Settings

VOCABULARY, LENGTH = 90, 12


def model(method: str | None = "softmax+cpr:5,20+mi", *, dropout: float = 0.1, seed: int = 0):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=3, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    made = GPT2LMHeadModel(config)
    return made if method is None else attach(made, method)


def tokens(count: int, seed: int = 0) -> np.ndarray:
    """Four words, again and again, then four others: something to copy."""
    generator = np.random.default_rng(seed)
    rows = [np.tile(generator.integers(0, VOCABULARY, 4), 3) for _ in range(count // 12 + 1)]
    return np.concatenate(rows)[:count]


def windows(count: int = 500, seed: int = 0) -> Windows:
    return Windows(tokens(count, seed), LENGTH)


def settings(folder, **changes) -> Settings:
    chosen = {
        "length": LENGTH, "lr": 1e-2, "clip": 1.0, "max_steps": 8, "log_every": 3, "save_every": 2, "report_to": (),
        "device": "cpu",
    }  # fmt: skip
    return Settings(output=str(folder), **chosen | changes)


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Letters:
    """A tokenizer: every letter is a token."""

    def __call__(self, texts, **options):
        return {"input_ids": [[ord(letter) % VOCABULARY for letter in text] for text in texts]}
