"""A program that uses the public API, for type checkers: make types, make types-pyright. It is never run."""

from pathlib import Path
from typing import assert_type

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerBase

import unbottle
from unbottle import Head, HeadConfig, Knobs, Method, MethodError, UnsupportedArchitectureError


def use(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    plain = GPT2LMHeadModel(GPT2Config())
    try:
        model = unbottle.attach(plain, "softmax+cpr:20,100+mi")
    except (MethodError, UnsupportedArchitectureError) as error:
        print(error)
        return
    assert_type(model, GPT2LMHeadModel)  # attach keeps the type that it is given
    assert_type(unbottle.detach(model), GPT2LMHeadModel)
    unbottle.save_head(model, folder)
    assert_type(unbottle.load_head(plain, folder), GPT2LMHeadModel)
    with unbottle.knobs(model, copy_bias=1.0) as knobs:
        assert_type(knobs, Knobs)
    print(unbottle.explain(model, tokenizer, "text", top=3))

    method = Method.parse("softmax+c+mi")
    assert_type(method, Method)
    assert_type(method.letters, str)
    head = Head(HeadConfig(method=method, hidden_size=8, vocabulary=20))
    assert_type(head.config.method, Method)
    assert_type(unbottle.__version__, str)
    loaded = unbottle.load(folder, dtype=torch.float32)
    loaded.eval()
