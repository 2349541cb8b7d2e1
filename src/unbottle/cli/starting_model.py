"""The model that a training starts from, with the head that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def starting_model(run: dict[str, Any], seed: int) -> tuple[Any, Any]:
    """Out of a folder, the hub or a config; and its tokenizer. New weights are drawn with the seed."""
    from transformers import set_seed

    from unbottle.cli.causal_model import causal_model
    from unbottle.hf.attach import attach
    from unbottle.hf.mixin import HeadMixin
    from unbottle.spec import Method

    method = None if run.get("method") is None else Method.parse(run["method"])
    set_seed(seed)
    if run.get("model"):
        if run.get("tokenizer"):
            raise ValueError("--tokenizer is for --config: a model has its own.")
        model, tokenizer = causal_model(run["model"])
    else:
        model, tokenizer = from_nothing(run["config"], run.get("tokenizer"))
    if not isinstance(model, HeadMixin):
        set_seed(seed)
        return model if method is None else attach(model, method), tokenizer
    if method is not None and method != model.head.config.method:
        raise ValueError(
            f"{run['model']} has the head {str(model.head.config.method)!r} already, not {str(method)!r}. Leave out "
            "--method to go on with it, or start from the plain model."
        )
    return model, tokenizer


def from_nothing(config: str, tokenizer_path: str | None) -> tuple[Any, Any]:
    """Random weights, as a config says. Without a size of its vocabulary it gets the tokenizer's."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    if tokenizer_path is None:
        raise ValueError("--config needs --tokenizer: a folder or a hub model that has one.")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_path)
    where = "--config" if config.lstrip().startswith("{") else config
    try:
        text = config if where == "--config" else Path(config).read_text(encoding="utf-8")
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: not valid JSON ({error}).") from error
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise ValueError(f'{where}: expected an object with a model_type, as in {{"model_type": "gpt2", ...}}.')
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    values = {"vocab_size": len(tokenizer), **ends, **values}
    if values["vocab_size"] < len(tokenizer):
        raise ValueError(f"{where}: vocab_size {values['vocab_size']}, and the tokenizer has {len(tokenizer)} tokens.")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values))
    return model, tokenizer
