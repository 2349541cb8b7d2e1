"""Ambiguous contexts: no word and no sentence of the test is trained on; a head learns from hidden states alone."""

from __future__ import annotations

import pytest
import tiny_causal
import torch

import unbottle
from unbottle.data.analogy import own_pairs
from unbottle.experiments.corpora import train_tokenizer
from unbottle.experiments.demo_contexts import (
    SHOWN,
    ContextSettings,
    StoredContexts,
    ambiguous_contexts,
    evaluate_head,
    one_token_pairs,
    sentences,
    shown_contexts,
    train_head,
)


def quiet(done: float, total: float, text: str) -> None:
    """No progress."""


@pytest.mark.parametrize("seed", range(3))
def test_test_words_and_sentences_are_never_trained_on(seed: int) -> None:
    settings = ContextSettings(train=96, test=48)
    contexts = ambiguous_contexts(own_pairs(), settings, seed=seed)
    words = {
        part: {word for item in items for word in (*item.answers, *item.distractors)}
        for part, items in contexts.items()
    }
    assert not words["train"] & words["test"]
    assert {word for pairs in SHOWN.values() for pair in pairs for word in pair} <= words["test"]
    left = {
        part: {item.prompt.replace(item.answers[0], "").replace(item.answers[1], "") for item in items}
        for part, items in contexts.items()
    }
    assert not left["train"] & left["test"]
    assert len(contexts["train"]) == 96
    assert len(contexts["test"]) == 48 + len(shown_contexts())


def test_both_orders_of_each_context() -> None:
    items = ambiguous_contexts(own_pairs(), ContextSettings(train=32, test=16), seed=0)["train"]
    for one, other in zip(items[::2], items[1::2], strict=True):
        assert one.answers == other.answers[::-1]
        assert one.prompt.index(one.answers[0]) < one.prompt.rindex(one.answers[1])


def test_the_prompt_has_the_answers_and_not_the_others() -> None:
    for item in shown_contexts():
        words = item.prompt.replace(",", "").split()
        assert {*item.answers} <= {*words}
        assert not {*item.distractors} & {*words}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(sentences(), 1200)


@pytest.mark.parametrize("method", ["softmax+mi", "softmax+cpr:3,9+mi"])
def test_left_padding_changes_nothing(method: str, tokenizer) -> None:
    """Log-probabilities of padded rows from stored states, against the model on one prompt at a time."""
    model = unbottle.attach(tiny_causal.model("plain", len(tokenizer)), method).eval()
    items = ambiguous_contexts(one_token_pairs(tokenizer), ContextSettings(train=16, test=8), seed=0)["train"]
    stored = StoredContexts.read(model, tokenizer, items, quiet)
    assert 0 in stored.mask
    found = stored.log_probabilities(model, torch.arange(len(items)))
    for item, row in zip(items, found, strict=True):
        logits = model(tokenizer(item.prompt, return_tensors="pt").input_ids).logits[0, -1]
        ids = [tokenizer(f" {word}").input_ids[0] for word in (*item.answers, *item.distractors)]
        torch.testing.assert_close(row, logits.log_softmax(-1)[ids], atol=1e-4, rtol=1e-4)


def test_training_changes_the_head_alone_and_helps(tokenizer) -> None:
    torch.manual_seed(0)
    model = unbottle.attach(tiny_causal.model("plain", len(tokenizer)), "softmax+c+mi").eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    settings = ContextSettings(train=32, test=16, epochs=4, lr=3e-3)
    contexts = ambiguous_contexts(one_token_pairs(tokenizer), settings, seed=0)
    stored = {part: StoredContexts.read(model, tokenizer, items, quiet) for part, items in contexts.items()}
    first = evaluate_head(model, stored["train"], 0)
    train_head(model, stored["train"], settings, seed=0, progress=quiet)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("head.") for name in changed)
    assert evaluate_head(model, stored["train"], 0)["perplexity"] < first["perplexity"]
    shown = evaluate_head(model, stored["test"], 2)["shown"]
    assert len(shown) == 2
    assert all(sum(row) <= 1 for row in shown)
