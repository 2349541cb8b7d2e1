"""Order bias, against models whose distribution is known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import log

import pytest
import tiny_causal
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PretrainedConfig, PreTrainedTokenizerFast

from unbottle.eval.next_words import PROMPTS, Prompt
from unbottle.eval.order_bias import evenness, order_bias, orders, renormalised

WORDS = ["<unk>", "take", "one", ":", "tea", "milk", "juice", "water", "other", "<end>"]
TEA = Prompt.parse("take [tea] [milk] [juice] :")


def word_level() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<end>")


class Known(torch.nn.Module):
    """A model that is a function from the words so far to the probabilities of the next ones."""

    device = torch.device("cpu")
    config = PretrainedConfig()

    def __init__(self, rule: Callable[[list[str]], dict[str, float]]) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, input_ids, use_cache, logits_to_keep):
        rows = []
        for row in input_ids.tolist():
            said = [WORDS[number] for number in row]
            told = [self.rule(said[: place + 1]) for place in range(len(said))]
            rows.append([[log(probability.get(word, 1e-30)) for word in WORDS] for probability in told])
        return type("Output", (), {"logits": torch.tensor(rows)[:, -logits_to_keep:]})


def the_first(said: list[str]) -> dict[str, float]:
    """0.4 for what was listed first, 0.1 for the two others."""
    return {word: 0.4 if place == 0 else 0.1 for place, word in enumerate(said[1:4])} | {"other": 0.4}


def test_a_model_that_prefers_what_is_listed_first() -> None:
    (row,) = order_bias(Known(the_first), word_level(), [TEA], shuffles=6).rows
    q = (0.4 / 0.6, 0.1 / 0.6, 0.1 / 0.6)
    assert row.orders == 6
    assert row.mass == pytest.approx(0.6)
    assert row.outside == pytest.approx(0.4)
    assert row.evenness == pytest.approx(-sum(x * log(x) for x in q) / log(3), rel=1e-5)
    assert row.winner_changes == pytest.approx(4 / 6)  # each of three is first in two of the six orders
    assert row.by_position == pytest.approx(q, rel=1e-5)
    assert row.by_option == pytest.approx((1 / 3, 1 / 3, 1 / 3), rel=1e-5)


def test_a_model_that_prefers_a_word_wherever_it_stands() -> None:
    known = Known(lambda said: {"milk": 0.5, "tea": 0.25, "juice": 0.25})
    (row,) = order_bias(known, word_level(), [TEA], shuffles=6).rows
    assert (row.winner, row.winner_changes) == ("milk", 0)
    assert row.by_option == pytest.approx((0.25, 0.5, 0.25), rel=1e-5)
    assert row.by_position == pytest.approx((1 / 3, 1 / 3, 1 / 3), rel=1e-5)
    assert row.evenness == pytest.approx(1.5 * log(2) / log(3), rel=1e-5)
    assert row.outside == pytest.approx(0, abs=1e-6)


def test_an_even_model() -> None:
    known = Known(lambda said: dict.fromkeys(("tea", "milk", "juice"), 0.2) | {"other": 0.4})
    (row,) = order_bias(known, word_level(), [TEA]).rows
    assert row.evenness == pytest.approx(1)
    assert row.mass == pytest.approx(0.6)


def test_an_option_of_several_tokens_counts_as_a_whole() -> None:
    def rule(said: list[str]) -> dict[str, float]:
        if said[-1] == ":":
            return {"tea": 0.5, "milk": 0.5}
        return {"juice": 0.2, "other": 0.8}  # after the second tea of "... : tea"

    prompt = Prompt.parse("take [tea juice] [milk] :")
    (row,) = order_bias(Known(rule), word_level(), [prompt], shuffles=2).rows
    assert row.mass == pytest.approx(0.1 + 0.5)
    assert row.by_option == pytest.approx((0.1 / 0.6, 0.5 / 0.6), rel=1e-5)


def test_a_list_that_should_go_on_tells_how_much_is_repeated() -> None:
    prompt = Prompt.parse("take [-tea] [-milk] :")
    (row,) = order_bias(Known(lambda said: {"tea": 0.1, "milk": 0.2, "water": 0.7}), word_level(), [prompt]).rows
    assert not row.repeats
    assert (row.mass, row.outside) == (pytest.approx(0.3), pytest.approx(0.7))


def test_tiny_probabilities_are_still_shared_out() -> None:
    assert evenness([1.0, 0.0]) == 0
    assert renormalised({"a": -2000.0, "b": -2000.0 - log(3)}) == pytest.approx({"a": 0.75, "b": 0.25})
    known = Known(lambda said: {"tea": 1e-300, "milk": 1e-300, "juice": 1e-300, "other": 1.0})
    (row,) = order_bias(known, word_level(), [TEA]).rows
    assert row.evenness == pytest.approx(1)
    assert row.mass == pytest.approx(0)


def test_orders_are_different_complete_and_the_same_for_a_seed() -> None:
    options = ("a", "b", "c", "d")
    found = orders(options, 20)
    assert found[0] == options
    assert len(set(found)) == 20
    assert set(found) <= set(permutations(options))
    assert set(orders(options, 100)) == set(permutations(options))
    assert orders(options, 20) == found != orders(options, 20, seed=1)


def test_prompts_without_a_list_have_no_row() -> None:
    result = order_bias(Known(the_first), word_level(), [Prompt.parse("take one :"), TEA, TEA], shuffles=2)
    assert [row.prompt for row in result.rows] == [str(TEA)]
    assert result.to_dict()["rows"][0]["orders"] == 2


@pytest.mark.parametrize("method", tiny_causal.METHODS)
def test_real_models_and_the_prompts_of_the_paper(method: str) -> None:
    spelling = tiny_causal.tokenizer([str(prompt) for prompt in PROMPTS] * 3)
    model = tiny_causal.model(method, len(spelling))
    first, second = (order_bias(model, spelling, shuffles=3) for _ in range(2))
    assert first == second
    assert [row.orders for row in first.rows] == [3, 3, 3, 2]
    for row in first.rows:
        assert 0 < row.evenness <= 1
        assert row.mass + row.outside == pytest.approx(1)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="shuffles=0: expected a number from 1"):
        order_bias(Known(the_first), word_level(), [TEA], shuffles=0)
