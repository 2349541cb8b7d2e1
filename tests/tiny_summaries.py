"""A tiny T5 and a tiny BART, a tokenizer, and dialogues with summaries for them."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from unbottle.data import Pairs
from unbottle.hf import attach
from unbottle.train import SummarizeSettings

TEXT = "the king queen of France met Anna in Paris and said that she should go to London again summarize :"
WORDS = TEXT.split()
FILL = [f"word{number}" for number in range(40)]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
METHODS = (
    "s", "copynet", "pg", "ps", "s+r:20", "s+e", "s+ce", "s+cer:20", "s+cepr:20", "s+cepr:20+mi",
)  # fmt: skip
LIMIT = 32


@functools.cache
def tokenizer() -> PreTrainedTokenizerFast:
    """A word is a token; a text ends with </s>."""
    vocabulary = {word: number for number, word in enumerate(SPECIAL + WORDS + FILL)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def model(
    name: str = "t5", method: str | None = "s+cepr:20", *, seed: int = 0, shake: float = 0.0, dropout: float = 0.1
):
    """Random weights. A shaken head is far from its start, so that its words differ from those of a plain model."""
    torch.manual_seed(seed)
    ids = {"vocab_size": len(tokenizer()), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "d_model": 16}
    if name == "t5":
        sizes = {"d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
        made = T5ForConditionalGeneration(T5Config(**ids, **sizes, dropout_rate=dropout))
    else:
        layers = {f"{part}_layers": 2 for part in ("encoder", "decoder")}
        heads = {f"{part}_attention_heads": 2 for part in ("encoder", "decoder")}
        widths = {f"{part}_ffn_dim": 24 for part in ("encoder", "decoder")}
        starts = {"decoder_start_token_id": 2, "forced_bos_token_id": None, "forced_eos_token_id": 2}
        made = BartForConditionalGeneration(
            BartConfig(**ids, **layers, **heads, **widths, **starts, max_position_embeddings=LIMIT, dropout=dropout)
        )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    if method is not None:
        attach(made, method)
        with torch.no_grad():
            for parameter in made.head.parameters():
                divided = parameter.shape[1] ** 0.5 if parameter.ndim == 2 else 1.0  # by the head itself
                parameter += shake * divided * torch.randn_like(parameter)
    return made


def saved(folder: Path) -> str:
    """A folder with a BART whose head is shaken, and its tokenizer."""
    model("bart", "s+cepr:20", seed=1, shake=0.4).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def rows(count: int = 40, seed: int = 0) -> Dataset:
    """A summary is the first words of its document, or one word."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for number in range(count):
        length = int(torch.randint(4, 24, (1,), generator=generator))
        words = [WORDS[i] for i in torch.randint(0, 16, (length,), generator=generator).tolist()]
        short = words[: 1 + number % 5]
        found.append({"id": str(number), "document": " ".join(words), "summary": " ".join(short)})
    return Dataset.from_list(found)


def pairs(count: int = 40, seed: int = 0, **options) -> Pairs:
    return Pairs(rows(count, seed), tokenizer(), **{"source_length": 20, "target_length": 8} | options)


def settings(folder, **changes) -> SummarizeSettings:
    chosen = {
        "source_length": 20, "target_length": 8, "batch": 4, "lr": 1e-2, "max_steps": 8, "warmup_steps": 0,
        "log_every": 3, "save_every": 2, "report_to": (), "device": "cpu",
    }  # fmt: skip
    return SummarizeSettings(output=str(folder), **chosen | changes)
