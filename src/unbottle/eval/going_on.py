"""going_on: what a causal model writes after prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from unbottle.eval.decoding import Decoding, Prediction, decoded, spelled
from unbottle.hf.limits import length_limit


def going_on(
    model: Any, tokenizer: Any, prompts: Iterable[str], decoding: Decoding, *, first_batch: int = 0
) -> Iterator[Prediction]:
    """What comes after each prompt, in order, as soon as its batch is done; the prompt is not repeated.

    Of a prompt that is too long its end is read. An empty one is the start of a text. The same prompts in batches of
    the same size are continued in the same way.
    """
    most = _room(model, decoding)
    rows = iter(prompts)
    number = first_batch
    while batch := [*islice(rows, decoding.batch)]:
        ids = [_tokens(tokenizer, (decoding.prefix or "") + prompt) for prompt in batch]
        made = decoded(model, tokenizer, [row[-most:] for row in ids], decoding, number, left=True)
        start = min(most, max(len(row) for row in ids))
        for row, read in zip(made[:, start:].tolist(), ids, strict=True):
            yield Prediction(text=spelled(tokenizer, row), dropped=max(0, len(read) - most))
        number += 1


def _room(model: Any, decoding: Decoding) -> int:
    """How many tokens of a prompt fit before what is to be written."""
    if model.config.is_encoder_decoder:
        raise ValueError(f"{model._get_name()} is an encoder-decoder; a causal language model is needed.")
    limit = length_limit(model.config)
    if limit is None:
        return decoding.source_length
    if decoding.max_length >= limit:
        raise ValueError(
            f"max_length {decoding.max_length}: {model._get_name()} reads and writes at most {limit} tokens, the "
            "prompt included. Ask for fewer new ones."
        )
    return min(decoding.source_length, limit - decoding.max_length)


def _tokens(tokenizer: Any, text: str) -> Sequence[int]:
    """Of a prompt; of an empty one the token that begins or ends texts."""
    ids: list[int] = tokenizer(text, verbose=False)["input_ids"]
    if not ids:
        start = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), None)
        if start is None:
            raise ValueError("an empty prompt: this tokenizer has no token to begin a text with. Give a word.")
        return [start]
    return ids
