"""predictions: what an encoder-decoder model writes about documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from unbottle.eval.decoding import SAMPLING, Decoding, Prediction, decoded, spelled
from unbottle.hf.limits import source_limit, target_limit
from unbottle.hf.prefix import prefix_of
from unbottle.hf.truncated import truncated

__all__ = ["SAMPLING", "Decoding", "Prediction", "predictions"]


def predictions(
    model: Any, tokenizer: Any, documents: Iterable[str], decoding: Decoding, *, first_batch: int = 0
) -> Iterator[Prediction]:
    """A prediction for each document, in order, as soon as its batch is done.

    The same documents in batches of the same size get the same predictions. To go on after `first_batch` batches, give
    the documents from there.
    """
    refuse_model(model, decoding)
    rows = iter(documents)
    number = first_batch
    while batch := [*islice(rows, decoding.batch)]:
        yield from _predicted(model, tokenizer, batch, decoding, number)
        number += 1


def refuse_model(model: Any, decoding: Decoding) -> None:
    """Models that can not summarize, or not at such length."""
    if not model.config.is_encoder_decoder:
        raise ValueError(f"{model._get_name()} is a causal language model; an encoder-decoder model is needed.")
    limit = target_limit(model.config)
    if limit is not None and decoding.max_length > limit:
        raise ValueError(f"max_length {decoding.max_length}: {model._get_name()} writes at most {limit} tokens.")


def _predicted(
    model: Any, tokenizer: Any, documents: Sequence[str], decoding: Decoding, number: int
) -> list[Prediction]:
    """Of one batch."""
    limit = source_limit(model.config)
    most = decoding.source_length if limit is None else min(decoding.source_length, limit)
    prefix = prefix_of(model) if decoding.prefix is None else decoding.prefix
    there = [place for place, document in enumerate(documents) if document.strip()]
    found = [Prediction(text="", empty=True)] * len(documents)
    if not there:
        return found
    read = truncated(tokenizer, [prefix + documents[place] for place in there], most)
    written = decoded(model, tokenizer, [ids for ids, _ in read], decoding, number).tolist()
    for place, ids, (_, dropped) in zip(there, written, read, strict=True):
        found[place] = Prediction(text=spelled(tokenizer, ids).strip(), dropped=dropped)
    return found
