"""Excerpts of texts: some words to read, and the words that really follow."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

WORD = re.compile(r"\S+")  # words are what stands between spaces


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The first `prompt_words` words of sample number `sample`, and the words after them, spaces as in the text."""

    sample: int
    prompt_words: int
    prompt: str
    reference: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def excerpts(texts: Iterable[str], *, prompts: tuple[int, ...], words: int, samples: int, seed: int) -> list[Excerpt]:
    """`samples` stretches of max(prompts) + words words, drawn without repetition; each is used with every prompt.

    Stretches are cut from each text one after the other, so no two overlap. Ordered by prompt, then as in the text.
    """
    if not prompts or min(prompts) < 1 or words < 1 or samples < 1:
        raise ValueError(f"prompts {prompts}, words {words}, samples {samples}: expected 1 or more of each.")
    need = max(prompts) + words
    stretches = []
    for text in texts:
        spans = [match.span() for match in WORD.finditer(text)]
        stretches += [(text, spans[i : i + need]) for i in range(0, len(spans) - need + 1, need)]
    if not stretches:
        raise ValueError(f"no text of {need} words or more: {max(prompts)} to read and {words} to compare with.")
    chosen = sorted(random.Random(seed).sample(range(len(stretches)), min(samples, len(stretches))))
    found = []
    for prompt_words in prompts:
        for sample, place in enumerate(chosen):
            text, spans = stretches[place]
            prompt = text[spans[0][0] : spans[prompt_words - 1][1]]
            reference = text[spans[prompt_words][0] : spans[prompt_words + words - 1][1]]
            found.append(Excerpt(sample=sample, prompt_words=prompt_words, prompt=prompt, reference=reference))
    return found
