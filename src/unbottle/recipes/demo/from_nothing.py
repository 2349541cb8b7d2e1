"""from_nothing: a tiny language model and its tokenizer, trained on the spot. No download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from unbottle.hf.safe import NO_CODE
from unbottle.recipes.demo.plan import FromNothing
from unbottle.recipes.demo.source_code import Code, texts
from unbottle.recipes.tokenizer import train_tokenizer
from unbottle.train import train_lm

Report = Callable[[float, float, str], None]


def from_nothing(plan: FromNothing, code: Code, folder: Path, report: Report) -> Path:
    """The folder of the model, which learned from files that nothing else here is trained or tested on."""
    spelling = folder / "tokenizer"
    if not spelling.exists():
        report(0, 1, "a tokenizer")
        temporary = folder / ".tokenizer.writing"
        shutil.rmtree(temporary, ignore_errors=True)
        train_tokenizer(texts(code.parts["base"]), plan.vocabulary).save_pretrained(temporary)
        os.replace(temporary, spelling)
    tokenizer = AutoTokenizer.from_pretrained(spelling, **NO_CODE)
    windows, _ = code.windows("base", tokenizer, length=plan.settings.length, tokens=plan.tokens, each=plan.each)
    torch.manual_seed(0)
    end = tokenizer.eos_token_id
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **plan.config))
    train_lm(model, windows, None, replace(plan.settings, output=str(folder)), report=report, tokenizer=tokenizer)
    return folder / "model"
