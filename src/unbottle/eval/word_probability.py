"""continuations: the probability of whole words after texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unbottle.eval.inference import evaluating
from unbottle.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """log p(word | text) and the number of tokens of the word."""

    log_probability: float
    tokens: int


def continuations(
    model: Any, tokenizer: Any, asked: Sequence[tuple[str, str]], *, batch: int = 32, report: Progress | None = None
) -> list[Continuation]:
    """For each text and word, the probability that the text goes on with a space and the word.

    log p(word | text) = sum_i log p(token_i | text, token_1 ... token_{i-1})

    It counts longer words that start with the same tokens (man: manner), as any reading of tokens does. What differs
    only in the last token is read once, and texts of one length are read together: nothing is padded, so the answers
    do not depend on `batch` beyond rounding.
    """
    if batch < 1:
        raise ValueError(f"batch={batch}: expected a number from 1.")
    spelled = [tokens_of(tokenizer, text, word) for text, word in asked]
    readers: dict[tuple[int, ...], list[int]] = {}  # what is read: who asked
    for index, (context, word) in enumerate(spelled):
        readers.setdefault((*context, *word[:-1]), []).append(index)
    refuse_long(model, max(map(len, readers), default=0))
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for row in readers:
        by_length.setdefault(len(row), []).append(row)

    found: dict[int, Continuation] = {}
    done = 0
    with evaluating(model):
        for rows in by_length.values():
            for start in range(0, len(rows), batch):
                read = rows[start : start + batch]
                keep = max(len(spelled[index][1]) for row in read for index in readers[row])
                ids = torch.tensor(read, device=model.device)
                log_probs = model(input_ids=ids, use_cache=False, logits_to_keep=keep).logits.float().log_softmax(-1)
                for row, scores in zip(read, log_probs, strict=True):
                    for index in readers[row]:
                        targets = torch.tensor(spelled[index][1], device=scores.device)
                        each = scores[-len(targets) :].gather(-1, targets[:, None])
                        found[index] = Continuation(log_probability=float(each.double().sum()), tokens=len(targets))
                done += len(read)
                if report is not None:
                    report(done, len(readers), f"{done} of {len(readers)} contexts")
    return [found[index] for index in range(len(asked))]


def tokens_of(tokenizer: Any, text: str, word: str) -> tuple[list[int], list[int]]:
    """The tokens of a text, and those that a space and a word add to it."""
    context, whole = (_ids(tokenizer, string) for string in (text, f"{text} {word}"))
    if not context:
        raise ValueError(f"text {text!r} has no token, and a model needs one to go on from. Give a longer text.")
    if whole[: len(context)] != context or len(whole) == len(context):
        raise ValueError(
            f"{type(tokenizer).__name__} does not spell {text[-40:]!r} and {word!r} as separate tokens, so the "
            "probability of the word is not defined. Give a text that ends with a whole word."
        )
    return context, whole[len(context) :]


def _ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids without the end of text that some tokenizers add: the text goes on."""
    ids = list(tokenizer(text)["input_ids"])
    end = tokenizer.eos_token_id
    return ids[:-1] if end is not None and ids[-1:] == [end] else ids


def refuse_long(model: Any, tokens: int) -> None:
    """Refuse a text that is longer than what the model can read."""
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if limit is not None and tokens > limit:
        raise ValueError(f"a text with {tokens} tokens is too long for a model that reads {limit}. Give shorter texts.")
