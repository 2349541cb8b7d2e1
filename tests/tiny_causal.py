"""A tiny GPT-2 and a tokenizer for which short words are one token and long ones several."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import unbottle

METHODS = ("plain", "softmax+cpr:3,9+mi", "mos:2", "ps")
END = "<end>"


def tokenizer(texts: list[str], vocabulary: int = 290) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on the spot: 256 bytes and a few merges."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END)


def model(method: str, vocabulary: int = 290, *, seed: int = 0) -> GPT2LMHeadModel:
    """Random weights, large enough that distributions are far from even."""
    torch.manual_seed(seed)
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    made = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_embd=16, n_layer=3, n_head=2, n_positions=256, **ids))
    made.transformer.wte.weight.data *= 20
    if method != "plain":
        unbottle.attach(made, method)
        with torch.no_grad():
            for parameter in made.head.parameters():  # a fresh head predicts what the plain model does
                divided = parameter.shape[1] ** 0.5 if parameter.ndim == 2 else 1.0  # by the head itself
                parameter += 0.2 * divided * torch.randn_like(parameter)
    return made.eval()


def saved(folder: Path, method: str, spelling: PreTrainedTokenizerFast) -> str:
    """A folder with a model and its tokenizer."""
    model(method, len(spelling)).save_pretrained(folder)
    spelling.save_pretrained(folder)
    return str(folder)
