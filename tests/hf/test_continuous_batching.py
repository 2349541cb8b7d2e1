"""`generate_batch` answers what generate() answers, however requests are cut, mixed and moved among pages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from served_models import (
    METHODS,
    NEW,
    OTHERS,
    Answer,
    assert_same,
    cached_answers,
    expected,
    largest_difference,
    prompts,
)

import unbottle

api = pytest.importorskip("transformers.generation.continuous_batching.cache_allocators")

from transformers import ContinuousBatchingConfig, GenerationConfig  # noqa: E402

from unbottle.hf.integrations import continuous_batching  # noqa: E402
from unbottle.hf.paged_state import Pages  # noqa: E402

MAIN = METHODS[0]
PLENTY = {"num_blocks": 64, "max_batch_tokens": 512, "page_size": 16}
CHUNKED = {"num_blocks": 64, "max_batch_tokens": 19, "page_size": 16}
SCARCE = {"num_blocks": 12, "max_batch_tokens": 64, "page_size": 16}


def answers(model: Any, texts: list[list[int]], settings: dict[str, Any], copies: int = 1) -> list[Answer]:
    generation = GenerationConfig(max_new_tokens=NEW, do_sample=False, eos_token_id=-1, pad_token_id=0)
    generation.num_return_sequences = copies  # which the constructor allows with sampling only
    results = model.generate_batch(
        texts,
        generation_config=generation,
        continuous_batching_config=ContinuousBatchingConfig(return_logprobs=True, **settings),
    )
    return [Answer([*result.generated_tokens], [*result.logprobs]) for result in results.values()]


@pytest.mark.parametrize("method", [*METHODS, *OTHERS])
def test_methods(method: str) -> None:
    model, wanted = cached_answers("llama", method)
    for settings in (PLENTY, CHUNKED):
        assert_same(answers(model, prompts(), settings), wanted)


def test_few_pages() -> None:
    """Some requests wait, or are put off and read again."""
    model, wanted = cached_answers("llama", MAIN)
    assert_same(answers(model, prompts(), SCARCE), wanted)


def test_shared_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, wanted = cached_answers("llama", MAIN)
    hits: list[int] = []
    acquire = api.CacheAllocator.acquire_prefix_blocks
    monkeypatch.setattr(
        api.CacheAllocator,
        "acquire_prefix_blocks",
        lambda self, name, length, blocks: (hits.append(length), acquire(self, name, length, blocks))[1],
    )
    longer = [text + answer.tokens for text, answer in zip(prompts(), wanted, strict=True)]
    texts = [text for pair in zip(prompts(), longer, strict=True) for text in pair]
    got = answers(model, texts, PLENTY | {"max_batch_tokens": 64, "allow_block_sharing": True})
    assert_same(got[::2], wanted)
    assert_same(got[1::2], [expected(model, text) for text in longer])
    assert sum(hits) > 100


def test_several_answers_to_a_prompt() -> None:
    """Pages are copied for each of them."""
    model, wanted = cached_answers("llama", MAIN)
    got = answers(model, prompts(), PLENTY, copies=3)
    for start in range(3):
        assert_same(got[start::3], wanted)


@pytest.mark.parametrize("base", ["gpt2", "qwen2", "mistral", "gemma2", "gemma3"])
def test_bases(base: str) -> None:
    """Sliding windows among them: attention forgets words that the head remembers."""
    model, wanted = cached_answers(base, MAIN)
    assert_same(answers(model, prompts(), CHUNKED), wanted)
    assert_same([expected(model, text) for text in prompts()], wanted)


def test_knobs_of_a_block() -> None:
    model, wanted = cached_answers("llama", MAIN)
    biased = [expected(model, text, copy_bias=-3.0) for text in prompts()]
    assert any(a.tokens != b.tokens for a, b in zip(biased, wanted, strict=True))
    with unbottle.knobs(model, copy_bias=-3.0):
        assert_same(answers(model, prompts(), PLENTY), biased)
    assert_same(answers(model, prompts(), PLENTY), wanted)


@pytest.mark.parametrize("lost", ["LD", "layers"])
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    model, wanted = cached_answers("llama", MAIN)
    text, layers = Pages.text, Pages.layers

    def mutated_text(*args: Any) -> Any:
        past = text(*args)
        if lost in past.tensors:
            past.tensors[lost] = torch.zeros_like(past.tensors[lost])
        return past

    def mutated_layers(*args: Any) -> Any:
        states = layers(*args)
        return torch.zeros_like(states) if lost == "layers" else states

    monkeypatch.setattr(Pages, "text", mutated_text)
    monkeypatch.setattr(Pages, "layers", mutated_layers)
    assert largest_difference(answers(model, prompts(), CHUNKED), wanted) > 1e-2


@pytest.mark.parametrize(("base", "method", "why"), [("llama", "softmax+wbwr:5", "runs the model a second time")])
def test_refusals(base: str, method: str, why: str) -> None:
    with pytest.raises(NotImplementedError, match=why):
        answers(cached_answers(base, method)[0], prompts(), PLENTY)


def test_a_cache_made_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = cached_answers("llama", MAIN)
    monkeypatch.setattr(continuous_batching, "STATE", "elsewhere")
    with pytest.raises(ValueError, match="has no room for the head's state"):
        continuous_batching.paged_step(model, torch.zeros(1, 1, dtype=torch.long), {"cache": object()})
