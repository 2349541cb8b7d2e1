"""Decoding: how a model writes, the same for summaries and for texts that go on.

predictions: what an encoder-decoder model writes about documents.

continue_prompts: what a causal model writes after prompts.

Continuations of prompts, by sampling from the most likely words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from unbottle.eval.inference import evaluating
from unbottle.hf.pretrained import length_limit, prefix_of, source_limit, target_limit, truncated

SAMPLING = ("top-k", "greedy", "beams")


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How texts are written. The defaults are the paper's for summaries. What a model's own generation config asks for
    (lengths, penalties, beams) is left aside, so that models are compared on equal terms; its special tokens are kept.
    """

    sampling: str = "top-k"  # top-k, greedy or beams
    top_k: int = 10  # words to sample from
    beams: int = 4
    max_length: int = 128  # tokens that are written
    source_length: int = 1024  # tokens that are read; less where the model reads less
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
    """What was written; `dropped` tokens of what there was to read were not read. Nothing is written of an empty
    document."""

    text: str
    dropped: int = 0
    empty: bool = False


def decoded(
    model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], decoding: Decoding, number: int, *, left: bool = False
) -> Tensor:
    """What model.generate makes of batch `number`; rows of tokens are padded to the right, or to the left."""
    longest = max(len(row) for row in rows)
    known = (tokenizer.pad_token_id, getattr(model.config, "pad_token_id", None), tokenizer.eos_token_id)
    padding = next((i for i in known if i is not None), 0)
    fill = [[padding] * (longest - len(row)) for row in rows]
    hide = [[0] * len(some) for some in fill]
    seen = [[1] * len(row) for row in rows]
    joined = [[*b, *a] if left else [*a, *b] for a, b in zip(rows, fill, strict=True)]
    masked = [[*b, *a] if left else [*a, *b] for a, b in zip(seen, hide, strict=True)]
    batch, mask = (torch.tensor(each, device=model.device) for each in (joined, masked))
    settings = _config(decoding, padding if left else None)
    devices = [] if model.device.type == "cpu" else [model.device]
    kind = "cuda" if model.device.type == "cpu" else str(model.device.type)  # of no device: the processor's state alone
    with evaluating(model), torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(int(np.random.SeedSequence([decoding.seed, number]).generate_state(1)[0]))
        made: Tensor = model.generate(input_ids=batch, attention_mask=mask, generation_config=settings)
    return made


def spelled(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _config(decoding: Decoding, padding: int | None) -> GenerationConfig:
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
        pad_token_id=padding,
        use_cache=True,
    )


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


def continue_prompts(
    model: Any, tokenizer: Any, prompts: Iterable[str], decoding: Decoding, *, first_batch: int = 0
) -> Iterator[Prediction]:
    """What comes after each prompt, in order, as soon as its batch is done; the prompt is not repeated.

    Of a prompt that is too long its end is read. An empty one is the start of a text. The same prompts in batches of
    the same size are continued in the same way.
    """
    most = _room_after(model, decoding)
    rows = iter(prompts)
    number = first_batch
    while batch := [*islice(rows, decoding.batch)]:
        ids = [_tokens(tokenizer, (decoding.prefix or "") + prompt) for prompt in batch]
        made = decoded(model, tokenizer, [row[-most:] for row in ids], decoding, number, left=True)
        start = min(most, max(len(row) for row in ids))
        for row, read in zip(made[:, start:].tolist(), ids, strict=True):
            yield Prediction(text=spelled(tokenizer, row), dropped=max(0, len(read) - most))
        number += 1


def _room_after(model: Any, decoding: Decoding) -> int:
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


TOKENS_PER_WORD = 4  # a continuation ends after so many tokens for each word that was wanted, whatever they spell


class EnoughWords(StoppingCriteria):
    """A row is done when it has begun one word more than wanted: only then is the last one whole."""

    def __init__(self, tokenizer: Any, start: int, words: int) -> None:
        self.tokenizer, self.start, self.words = tokenizer, start, words

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        made = input_ids[:, self.start :].tolist()
        done = [len(row) > self.words and len(_text(row, self.tokenizer).split()) > self.words for row in made]
        return torch.tensor(done, device=input_ids.device)


def continuations(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, words: int, top_k: int, seed: int
) -> list[str]:
    """The next `words` words of each prompt, by top-k sampling at temperature 1; the random numbers are of this seed.

    The end of a text is never generated, since so many words are wanted. Prompts are padded on the left. What a row
    gets depends on which rows are beside it, so the same call gives the same words, and another batch may not.
    """
    ids = [tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"] for prompt in prompts]
    longest = max(len(row) for row in ids)
    room = _room(model, longest, words)
    padding = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0)
    batch = torch.tensor([[padding] * (longest - len(row)) + row for row in ids], device=model.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids], device=model.device)
    settings = GenerationConfig(
        do_sample=True,
        top_k=top_k,
        top_p=1.0,
        temperature=1.0,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        max_new_tokens=min(TOKENS_PER_WORD * words, room),
        pad_token_id=padding,
        suppress_tokens=_ends(model, tokenizer),
    )
    devices = [] if model.device.type == "cpu" else [model.device]
    with evaluating(model), torch.random.fork_rng(devices, device_type=_kind(model)):
        torch.manual_seed(seed)
        made: Tensor = model.generate(
            batch,
            attention_mask=mask,
            generation_config=settings,
            stopping_criteria=StoppingCriteriaList([EnoughWords(tokenizer, longest, words)]),
        )
    return [_first_words(_text(row, tokenizer), words) for row in made[:, longest:].tolist()]


def _kind(model: Any) -> str:
    return "cuda" if model.device.type == "cpu" else str(model.device.type)  # of no device: only the processor's state


def _ends(model: Any, tokenizer: Any) -> list[int] | None:
    """Every token that ends a text, for the model or its tokenizer."""
    own = model.generation_config.eos_token_id
    found = {*([] if own is None else own if isinstance(own, list) else [own]), *([tokenizer.eos_token_id])}
    return sorted(token for token in found if token is not None) or None


def _room(model: Any, longest: int, words: int) -> int:
    """How many tokens fit after the prompt."""
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    room = TOKENS_PER_WORD * words if most is None else int(most) - longest
    if room < words:
        raise ValueError(
            f"a prompt of {longest} tokens leaves no room for {words} words: {type(model).__name__} reads at most "
            f"{most} tokens. Take shorter prompts or fewer words."
        )
    return room


def _text(ids: Sequence[int], tokenizer: Any) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _first_words(text: str, words: int) -> str:
    """With single spaces between them: line ends mean nothing to the metrics."""
    return " ".join(text.split()[:words])
