"""predictions: what an encoder-decoder model writes about documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

from unbottle.eval.evaluating import evaluating
from unbottle.hf.limits import source_limit, target_limit
from unbottle.hf.prefix import prefix_of
from unbottle.hf.truncated import truncated

SAMPLING = ("top-k", "greedy", "beams")


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How summaries are written. The defaults are the paper's. What a model's own generation config asks for (lengths,
    penalties, beams) is left aside, so that models are compared on equal terms; its special tokens are kept."""

    sampling: str = "top-k"  # top-k, greedy or beams
    top_k: int = 10  # words to sample from
    beams: int = 4
    max_length: int = 128  # tokens of a summary
    source_length: int = 1024  # tokens of a document; less where the model reads less
    batch: int = 8
    prefix: str | None = None  # before each document; None: what the model's config names, as T5's does, or nothing
    seed: int = 0  # each batch draws its own random numbers from it, whatever came before

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLING:
            raise ValueError(f"sampling {self.sampling!r}: unknown. Known: {', '.join(SAMPLING)}.")
        for name, least in {
            "top_k": 1, "beams": 1, "max_length": 1, "source_length": 2, "batch": 1, "seed": 0,
        }.items():  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: give a number of at least {least}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A summary; `dropped` tokens at the end of its document were not read. Of an empty document nothing is written."""

    text: str
    dropped: int = 0
    empty: bool = False


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
    spelled = truncated(tokenizer, [prefix + documents[place] for place in there], most)
    texts = _written(model, tokenizer, [ids for ids, _ in spelled], decoding, number)
    for place, text, (_, dropped) in zip(there, texts, spelled, strict=True):
        found[place] = Prediction(text=text, dropped=dropped)
    return found


def _written(model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], decoding: Decoding, number: int) -> list[str]:
    longest = max(len(row) for row in rows)
    padding = next((i for i in (tokenizer.pad_token_id, model.config.pad_token_id) if i is not None), 0)
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device)
    devices = [] if model.device.type == "cpu" else [model.device]
    kind = "cuda" if model.device.type == "cpu" else str(model.device.type)  # of no device: the processor's state alone
    with evaluating(model), torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(int(np.random.SeedSequence([decoding.seed, number]).generate_state(1)[0]))
        made = model.generate(input_ids=ids, attention_mask=mask, generation_config=_config(decoding))
    return [
        str(tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)).strip()
        for row in made.tolist()
    ]


def _config(decoding: Decoding) -> GenerationConfig:
    """Everything that a model may have an opinion on is said; special tokens come from the model."""
    sampled = {"do_sample": True, "top_k": decoding.top_k, "top_p": 1.0, "temperature": 1.0}
    return GenerationConfig(
        **(sampled if decoding.sampling == "top-k" else {"do_sample": False}),
        num_beams=decoding.beams if decoding.sampling == "beams" else 1,
        num_return_sequences=1,
        max_new_tokens=decoding.max_length,
        min_length=0,
        length_penalty=1.0,
        early_stopping=False,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        encoder_no_repeat_ngram_size=0,
        use_cache=True,
    )
