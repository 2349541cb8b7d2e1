"""Probabilities of whole words after texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import LanguageModel, evaluating
from unbottle.progress import Progress


@dataclass(frozen=True, kw_only=True)
class WordProbability:
    """log p(word | text) and the number of tokens of the word."""

    log_probability: float
    tokens: int


def word_probabilities(
    model: LanguageModel,
    tokenizer: Tokenizer,
    queries: Sequence[tuple[str, str]],
    *,
    batch: int = 32,
    report: Progress | None = None,
) -> list[WordProbability]:
    """For each pair of a text and a word, the probability that a space and the word follow the text.

    log p(word | text) = sum_i log p(token_i | text, token_1 ... token_{i-1})

    It includes longer words that start with the same tokens (man: manner). Queries that differ only in the last token
    are read once, and texts of one length together: nothing is padded, so results do not depend on `batch` beyond
    rounding.
    """
    if batch < 1:
        raise ValueError(f"batch={batch}: expected a number from 1.")
    spelled = [query_tokens(tokenizer, text, word) for text, word in queries]
    readers: dict[tuple[int, ...], list[int]] = {}  # input ids: the queries that need them
    for index, (context, word) in enumerate(spelled):
        readers.setdefault((*context, *word[:-1]), []).append(index)
    check_length(model, max(map(len, readers), default=0))
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for row in readers:
        by_length.setdefault(len(row), []).append(row)

    probabilities: dict[int, WordProbability] = {}
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
                        total = scores[-len(targets) :].gather(-1, targets[:, None]).double().sum()
                        probabilities[index] = WordProbability(log_probability=float(total), tokens=len(targets))
                done += len(read)
                if report is not None:
                    report(done, len(readers), f"{done} of {len(readers)} contexts")
    return [probabilities[index] for index in range(len(queries))]


def query_tokens(tokenizer: Tokenizer, text: str, word: str) -> tuple[list[int], list[int]]:
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


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids without the end of text that some tokenizers add: the text goes on."""
    ids = list(tokenizer(text)["input_ids"])
    end = tokenizer.eos_token_id
    return ids[:-1] if end is not None and ids[-1:] == [end] else ids


def check_length(model: LanguageModel, tokens: int) -> None:
    """Refuse a text that is longer than the model can read."""
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if limit is not None and tokens > limit:
        raise ValueError(f"a text with {tokens} tokens is too long for a model that reads {limit}. Give shorter texts.")
