"""Text generation: summaries of documents, continuations of prompts, and files of predictions that can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import evaluating
from unbottle.files import Json, ResumableJsonl
from unbottle.hf.model_identity import checksum
from unbottle.hf.pretrained import length_limit, prefix_of, source_limit, target_limit, truncated
from unbottle.progress import Progress, silent

SAMPLING = ("top-k", "greedy", "beams")
MINIMA = {"top_k": 1, "beams": 1, "max_length": 1, "source_length": 2, "batch": 1, "seed": 0}
TOKENS_PER_WORD = 4  # a continuation of n words ends after at most 4 n tokens


class Generative(Protocol):
    """The part of transformers' GenerationMixin that is used here."""

    generation_config: GenerationConfig

    def generate(self, **options: object) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Decoding settings; the defaults are the paper's for summaries.

    Lengths, penalties and beams in a model's own generation config are ignored, so that models are compared on equal
    terms; its special tokens are kept.
    """

    sampling: str = "top-k"  # top-k, greedy or beams
    top_k: int = 10  # words to sample from
    beams: int = 4
    max_length: int = 128  # tokens to generate
    source_length: int = 1024  # tokens to read; fewer if the model reads fewer
    batch: int = 8
    prefix: str | None = None  # before each document; None: the prefix of the model's config, as T5 has one, or nothing
    seed: int = 0  # each batch draws its own random numbers from it, whatever came before

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLING:
            raise ValueError(f"sampling {self.sampling!r}: unknown. Known: {', '.join(SAMPLING)}.")
        for name, least in MINIMA.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: give a number of at least {least}.")

    def to_dict(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A generated text. `dropped` counts input tokens that were cut off; an empty document has an empty prediction."""

    text: str
    dropped: int = 0
    empty: bool = False


def predictions(
    model: PreTrainedModel, tokenizer: Tokenizer, documents: Iterable[str], decoding: Decoding, *, first_batch: int = 0
) -> Iterator[Prediction]:
    """Yields a summary of each document by an encoder-decoder model, in order, as soon as its batch is done.

    The same documents in batches of the same size get the same summaries. To resume after `first_batch` batches, give
    the documents from there on.
    """
    if not model.config.is_encoder_decoder:
        raise ValueError(f"{model._get_name()} is a causal language model; an encoder-decoder model is needed.")
    limit = target_limit(model.config)
    if limit is not None and decoding.max_length > limit:
        raise ValueError(f"max_length {decoding.max_length}: {model._get_name()} writes at most {limit} tokens.")
    limit = source_limit(model.config)
    longest = decoding.source_length if limit is None else min(decoding.source_length, limit)
    prefix = prefix_of(model) if decoding.prefix is None else decoding.prefix
    for number, batch in enumerate(_batches(documents, decoding.batch), start=first_batch):
        inputs = truncated(tokenizer, [prefix + document for document in batch if document.strip()], longest)
        rows = [ids for ids, _ in inputs]
        outputs = _decode(model, tokenizer, rows, decoding, seed=_seed(decoding, number)).tolist() if rows else []
        generated = zip(outputs, inputs, strict=True)
        for document in batch:
            if document.strip():
                ids, (_, dropped) = next(generated)
                yield Prediction(text=_text(ids, tokenizer).strip(), dropped=dropped)
            else:
                yield Prediction(text="", empty=True)


def continue_prompts(
    model: PreTrainedModel, tokenizer: Tokenizer, prompts: Iterable[str], decoding: Decoding, *, first_batch: int = 0
) -> Iterator[Prediction]:
    """Yields the continuation of each prompt by a causal model, in order, without the prompt.

    A prompt that is too long loses its beginning; an empty one is the start of a text. The same prompts in batches of
    the same size get the same continuations.
    """
    longest = _prompt_limit(model, decoding)
    for number, batch in enumerate(_batches(prompts, decoding.batch), start=first_batch):
        whole = [_prompt_ids(tokenizer, (decoding.prefix or "") + prompt) for prompt in batch]
        rows, seed = [row[-longest:] for row in whole], _seed(decoding, number)
        output = _decode(model, tokenizer, rows, decoding, seed=seed, padding_side="left")
        start = max(map(len, rows))
        for ids, row in zip(output[:, start:].tolist(), whole, strict=True):
            yield Prediction(text=_text(ids, tokenizer), dropped=max(0, len(row) - longest))


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := [*islice(iterator, size)]:
        yield batch


def _prompt_limit(model: PreTrainedModel, decoding: Decoding) -> int:
    """How many tokens of a prompt fit before the generated ones."""
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


def _prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The tokens of a prompt; an empty one becomes the token that begins or ends texts."""
    if ids := list(tokenizer(prompt, verbose=False)["input_ids"]):
        return ids
    start = _first_id(tokenizer.bos_token_id, tokenizer.eos_token_id)
    if start is None:
        raise ValueError("an empty prompt: this tokenizer has no token to begin a text with. Give a word.")
    return [start]


def _seed(decoding: Decoding, number: int) -> int:
    """The seed of a batch, by its number."""
    return int(np.random.SeedSequence([decoding.seed, number]).generate_state(1)[0])


def _decode(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    rows: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    seed: int,
    padding_side: Literal["left", "right"] = "right",
    suppressed: list[int] | None = None,
    stopping: StoppingCriteriaList | None = None,
) -> Tensor:
    """The output of model.generate on padded rows, with random numbers that leave those of the process alone.

    Every option that a model may set is set; special tokens are the model's, but those `suppressed` never come.
    """
    own_padding = getattr(model.config, "pad_token_id", None)
    padding = _first_id(tokenizer.pad_token_id, own_padding, tokenizer.eos_token_id) or 0
    sampled = {"do_sample": True, "top_k": decoding.top_k, "top_p": 1.0, "temperature": 1.0}
    config = GenerationConfig(
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
        pad_token_id=padding if padding_side == "left" else None,
        suppress_tokens=suppressed,
        use_cache=True,
    )
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    # tokenizer.pad would do, but refuses tokenizers without a padding token, as GPT-2's
    ids = pad_sequence(tensors, batch_first=True, padding_value=padding, padding_side=padding_side)
    mask = pad_sequence([torch.ones_like(ids) for ids in tensors], batch_first=True, padding_side=padding_side)
    device = model.device
    cpu = device.type == "cpu"  # then no device's random state is kept, and the type says nothing
    kept = torch.random.fork_rng([] if cpu else [device], device_type="cuda" if cpu else device.type)
    with evaluating(model), kept:
        torch.manual_seed(seed)
        inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        return cast(Generative, model).generate(**inputs, generation_config=config, stopping_criteria=stopping)


def _first_id(*ids: int | None) -> int | None:
    return next((token for token in ids if token is not None), None)


def _text(ids: list[int], tokenizer: Tokenizer) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


class EnoughWords(StoppingCriteria):
    """Stops a row when it has begun one word more than wanted: only then is the last one complete."""

    def __init__(self, tokenizer: Tokenizer, start: int, words: int) -> None:
        self.tokenizer, self.start, self.words = tokenizer, start, words

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: object) -> torch.BoolTensor:
        rows = input_ids[:, self.start :].tolist()
        done = [len(row) > self.words and len(_text(row, self.tokenizer).split()) > self.words for row in rows]
        return cast(torch.BoolTensor, torch.tensor(done, device=input_ids.device))


def continuations(
    model: PreTrainedModel, tokenizer: Tokenizer, prompts: Sequence[str], *, words: int, top_k: int, seed: int
) -> list[str]:
    """The next `words` words of each prompt, with single spaces between them, by top-k sampling at temperature 1.

    End-of-text tokens are never generated, since a fixed number of words is wanted. The result for a prompt depends on
    the prompts beside it: the same call gives the same words, another batch may not.
    """
    rows = [tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"] for prompt in prompts]
    longest, limit = max(map(len, rows)), length_limit(model.config)
    room = TOKENS_PER_WORD * words if limit is None else limit - longest
    if room < words:
        raise ValueError(
            f"a prompt of {longest} tokens leaves no room for {words} words: {type(model).__name__} reads at most "
            f"{limit} tokens. Take shorter prompts or fewer words."
        )
    own_ends = cast(Generative, model).generation_config.eos_token_id
    ends = {*(own_ends if isinstance(own_ends, list) else [own_ends]), tokenizer.eos_token_id}
    output = _decode(
        model,
        tokenizer,
        rows,
        Decoding(top_k=top_k, max_length=min(TOKENS_PER_WORD * words, room)),
        seed=seed,
        padding_side="left",
        suppressed=sorted(token for token in ends if token is not None) or None,
        stopping=StoppingCriteriaList([EnoughWords(tokenizer, longest, words)]),
    )
    texts = (_text(ids, tokenizer) for ids in output[:, longest:].tolist())
    return [" ".join(text.split()[:words]) for text in texts]


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Rows with a text in `column`, read anew for each use; `content` is a hash of all of them."""

    rows: Callable[[int], Iterator[Json]]  # from this row on
    column: str
    total: int
    content: str

    @classmethod
    def of(cls, rows: Callable[[int], Iterator[Json]], column: str) -> Documents:
        total, digest = 0, hashlib.sha256()
        for row in rows(0):
            total += 1
            digest.update(json.dumps(row).encode())
        return cls(rows=rows, column=column, total=total, content=digest.hexdigest()[:16])

    @classmethod
    def of_list(cls, rows: Sequence[Json], column: str) -> Documents:
        return cls.of(lambda start: iter(rows[start:]), column)


class Generate(Protocol):
    """Generates a prediction for each text; `first_batch` batches came before them."""

    def __call__(self, texts: Iterable[str], /, *, first_batch: int = 0) -> Iterator[Prediction]: ...


Generators = Mapping[str, tuple[PreTrainedModel, Generate]]  # by name, a model and a function that generates with it


def write_predictions(
    generators: Generators,
    documents: Documents,
    decoding: Decoding,
    path: Path | None,
    *,
    column: str = "prediction",
    what: str = "document",
    report: Progress = silent,
) -> None:
    """Write each row with its prediction in `column`, in order, to a JSONL file or to stdout.

    With several generators, `predictions` holds the texts by their names instead. An existing file is resumed, with the
    result of a run that was never interrupted; a file of other models, documents or decoding settings is refused.
    """
    sums = [checksum(model) for model, _ in generators.values()]
    settings: Json = {"input": documents.content, "text_column": documents.column}
    settings |= {"model": sums[0] if len(sums) == 1 else sums, **decoding.to_dict()}
    with ResumableJsonl(path, settings, sidecar=True) as file:
        done = len(file.resume(documents.total, decoding.batch))
        rows, *copies = tee(documents.rows(done), 1 + len(generators))
        streams = [
            generate((str(row[documents.column] or "") for row in copy), first_batch=done // decoding.batch)
            for (_, generate), copy in zip(generators.values(), copies, strict=True)
        ]
        for row, *generated in zip(rows, *streams, strict=True):
            texts = dict(zip(generators, (prediction.text for prediction in generated), strict=True))
            added = {column: generated[0].text} if len(texts) == 1 else {"predictions": texts}
            file.append([row | added])
            done += 1
            report(done, documents.total, f"{done} of {documents.total} {what}s")


def write_summaries(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    documents: Documents,
    decoding: Decoding,
    path: Path | None,
    *,
    report: Progress = silent,
) -> None:
    """Write each row with the summary that a model generates, as `write_predictions` does for one model."""
    generate = partial(predictions, model, tokenizer, decoding=decoding)
    write_predictions({"": (model, generate)}, documents, decoding, path, report=report)
