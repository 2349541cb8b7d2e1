"""Continuations of prompts, by sampling from the most likely words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from unbottle.eval.evaluating import evaluating

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
