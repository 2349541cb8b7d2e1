"""Perplexity of two equally likely words, against a slow loop."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import pytest
import tiny_causal
import tokenizer
import torch
from transformers import PretrainedConfig

from unbottle.eval.analogy import AnalogyResult, analogy
from unbottle.eval.next_words import query_tokens, word_probabilities


@dataclass(frozen=True)
class Made:
    kind: str
    relation: str
    prompt: str
    answers: tuple[str, str]
    distractors: tuple[str, str]


ITEMS = [
    Made("diagonal", "family", "I saw the king and the woman, then the", ("king", "woman"), ("queen", "man")),
    Made("diagonal", "family", "I saw the woman and the king, then the", ("woman", "king"), ("queen", "man")),
    Made("edge", "family", "The king or the queen? It was the", ("king", "queen"), ("man", "woman")),
    Made("diagonal", "city", "From Reno or from Ohio? I come from", ("Reno", "Ohio"), ("Nevada", "Akron")),
    Made("edge", "city", "Nevada", ("Reno", "Nevada"), ("Ohio", "Akron")),
]
TOKENIZER = tiny_causal.tokenizer([item.prompt for item in ITEMS] * 3)


def slow(model, prompt: str, word: str) -> tuple[float, int]:
    """log p of a word, one token and one pass at a time."""
    context, total = TOKENIZER(prompt)["input_ids"], 0.0
    ids = TOKENIZER(" " + word)["input_ids"]
    for token in ids:
        with torch.no_grad():
            logits = model(torch.tensor([context])).logits[0, -1].double()
        total += float(logits[token] - torch.logsumexp(logits, 0))
        context = [*context, token]
    return total, len(ids)


@pytest.fixture(params=tiny_causal.METHODS)
def model(request: pytest.FixtureRequest):
    return tiny_causal.model(request.param, len(TOKENIZER))


def test_the_tokenizer_spells_some_words_with_one_token_and_some_with_more() -> None:
    lengths = {len(query_tokens(TOKENIZER, i.prompt, word)[1]) for i in ITEMS for word in (*i.answers, *i.distractors)}
    assert 1 in lengths
    assert len(lengths) > 2


def test_equals_the_slow_loop(model) -> None:
    result = analogy(model, TOKENIZER, ITEMS)
    scores = {(i.prompt, word): slow(model, i.prompt, word) for i in ITEMS for word in (*i.answers, *i.distractors)}
    for row in result.rows:
        chosen = [i for i in ITEMS if row.kind in (i.kind, "all") and row.relation in (i.relation, "all")]
        answers = [scores[item.prompt, word] for item in chosen for word in item.answers]
        others = [scores[item.prompt, word] for item in chosen for word in item.distractors]
        entropy = -sum(score for score, _ in answers) / len(answers)
        tokens = sum(number for _, number in answers) / len(answers)
        assert row.items == len(chosen)
        assert log(row.perplexity) == pytest.approx(entropy, rel=1e-5)
        assert log(row.token_perplexity) == pytest.approx(entropy / tokens, rel=1e-5)
        assert row.token_floor == pytest.approx(2 ** (1 / tokens))
        assert row.answer_mass == pytest.approx(sum(exp(score) for score, _ in answers) / len(chosen), rel=1e-4)
        assert row.distractor_mass == pytest.approx(sum(exp(score) for score, _ in others) / len(chosen), rel=1e-4)
        assert row.perplexity > row.floor == 2
    assert [(row.kind, row.relation) for row in result.rows] == [
        ("diagonal", "family"),
        ("diagonal", "city"),
        ("edge", "family"),
        ("edge", "city"),
        ("diagonal", "all"),
        ("edge", "all"),
        ("all", "all"),
    ]


def test_batched_equals_one_by_one(model) -> None:
    together, alone = (analogy(model, TOKENIZER, ITEMS, batch=batch) for batch in (32, 1))
    for row, other in zip(together.rows, alone.rows, strict=True):
        assert (row.kind, row.relation) == (other.kind, other.relation)
        assert list(vars(row).values())[2:] == pytest.approx(list(vars(other).values())[2:], rel=1e-5)


class Even(torch.nn.Module):
    """One half for each of two tokens, whatever was read."""

    device = torch.device("cpu")
    config = PretrainedConfig()

    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.log_probs = torch.full((len(TOKENIZER),), -1e4)
        self.log_probs[[first, second]] = log(0.5)

    def forward(self, input_ids, use_cache, logits_to_keep):
        return type("Output", (), {"logits": self.log_probs.expand(*input_ids.shape, -1)[:, -logits_to_keep:]})


def test_the_true_distribution_has_the_perplexity_of_the_floor() -> None:
    spelling = tiny_causal.tokenizer(["the king and the woman and the queen and the man"] * 9, 320)
    king, woman = (query_tokens(spelling, "the", word)[1] for word in ("king", "woman"))
    assert len(king) == len(woman) == 1
    found = analogy(Even(*king, *woman), spelling, ITEMS[:2]).overall
    assert found.perplexity == pytest.approx(found.floor)
    assert found.token_perplexity == pytest.approx(found.token_floor)
    assert (found.answer_mass, found.distractor_mass) == (pytest.approx(1), 0)


def test_an_impossible_answer_is_infinitely_perplexing() -> None:
    assert analogy(Even(1, 2), TOKENIZER, ITEMS[:1]).overall.perplexity == float("inf")


def test_dropout_is_off_and_comes_back() -> None:
    model = tiny_causal.model("softmax+cpr:3,9+mi", len(TOKENIZER)).train()
    first, second = (analogy(model, TOKENIZER, ITEMS[:1]) for _ in range(2))
    assert first == second
    assert model.training


def test_progress_ends_at_the_end() -> None:
    seen: list[tuple[float, float]] = []
    model = tiny_causal.model("plain", len(TOKENIZER))
    analogy(model, TOKENIZER, ITEMS, batch=2, report=lambda done, total, text: seen.append((done, total)))
    assert len(seen) > 1
    assert seen[-1][0] == seen[-1][1]


def test_rows_by_name() -> None:
    result = analogy(tiny_causal.model("plain", len(TOKENIZER)), TOKENIZER, ITEMS)
    assert isinstance(result, AnalogyResult)
    assert result.row("edge", "city").items == 1
    assert result.overall.items == 5
    assert result.to_dict()["rows"][0]["kind"] == "diagonal"


def test_refusals() -> None:
    model = tiny_causal.model("plain", len(TOKENIZER))
    with pytest.raises(ValueError, match="no analogy to evaluate"):
        analogy(model, TOKENIZER, [])
    with pytest.raises(ValueError, match="batch=0"):
        word_probabilities(model, TOKENIZER, [("a", "b")], batch=0)
    with pytest.raises(ValueError, match="text '' has no token"):
        word_probabilities(model, TOKENIZER, [("", "b")])
    with pytest.raises(ValueError, match="too long for a model that reads 256"):
        word_probabilities(model, TOKENIZER, [("a b " * 200, "b")])
    with pytest.raises(ValueError, match="does not spell"):
        word_probabilities(model, tokenizer.tokenizer(), [("w3", "")])
