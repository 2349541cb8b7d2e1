"""Real text: names in Python's documentation, scores token by token, groups, and the sentences that are shown."""

from __future__ import annotations

import math

import pytest
import torch
from byte_pairs import byte_pairs

from unbottle.experiments.demo_text import (
    Documentation,
    DocumentedNames,
    TokenScores,
    compare_groups,
    extreme_sentences,
    token_groups,
)


def test_names_are_what_the_documentation_marks() -> None:
    text = 'The "dict" type and "len()" take an *iterable*; see __getitem__, TypeError and "a phrase" in Python.'
    spans = DocumentedNames()(text)
    assert [text[first:end] for first, end in spans] == ["dict", "len", "iterable", "__getitem__", "TypeError"]


def test_no_topic_is_trained_on_and_tested() -> None:
    library = Documentation.of_python()
    assert {*library.parts} == {"train", "test"}
    assert not {*library.parts["train"]} & {*library.parts["test"]}
    assert min(sum(map(len, texts)) for texts in library.parts.values()) > 100_000
    assert library.fingerprint() == Documentation.of_python().fingerprint()
    assert library.description.startswith("the documentation of Python 3.")


def scores(*rows: list[float]) -> TokenScores:
    return TokenScores(losses=[*rows], correct=[[int(loss < 1) for loss in row] for row in rows])


GROUPS = {
    "names": [[True, False, False], [False, True, False]],
    "context": [[True, True, False], [False, True, False]],
    "new": [[False, False, True], [True, False, True]],
    "all": [[True] * 3] * 2,
}


def test_groups_are_compared_on_the_same_tokens() -> None:
    softmax, cpr = scores([2.0, 1.0, 3.0], [2.0, 2.0, 2.0]), scores([0.5, 1.0, 4.0], [2.0, 1.5, 2.0])
    found = compare_groups({"before": [softmax], "softmax": [softmax], "cpr": [cpr]}, GROUPS)
    assert found["names"]["share"] == pytest.approx(2 / 6)
    assert found["names"]["models"]["softmax"]["perplexity"] == [pytest.approx(math.exp(2.0))]
    assert found["names"]["models"]["cpr"]["perplexity"] == [pytest.approx(math.exp(1.0))]
    assert found["names"]["change"] == pytest.approx(math.exp(-1.0) - 1)
    assert found["names"]["models"]["cpr"]["accuracy"] == [0.5]
    assert found["new"]["change"] == pytest.approx(math.exp(1 / 3) - 1)
    assert (found["names"]["wins"], found["new"]["wins"]) == (1, 0)


def test_a_group_without_tokens_is_left_out() -> None:
    empty = GROUPS | {"names": [[False] * 3] * 2}
    one = scores([1.0] * 3, [1.0] * 3)
    assert "names" not in compare_groups({"before": [one], "softmax": [one], "cpr": [one]}, empty)


def test_tokens_of_the_context_are_those_that_came_before() -> None:
    windows = [{"input_ids": torch.tensor([5, 6, 5, 7, 6])}]
    groups = token_groups(windows, byte_pairs(), lambda text: [])
    assert groups["context"] == [[False, True, False, True]]
    assert groups["new"] == [[True, False, True, False]]
    assert groups["all"] == [[True] * 4]


def test_the_sentences_with_the_largest_gain_and_loss() -> None:
    tokenizer = byte_pairs()
    sentence = "a b c d e f g h i j k l m n o p q r s t."
    ids = torch.tensor(tokenizer(" ".join([sentence] * 6))["input_ids"])
    ends = [place + 1 for place, token in enumerate(ids.tolist()) if tokenizer.decode([token]).endswith(".")]
    softmax = TokenScores(losses=[[1.0] * (len(ids) - 1)], correct=[[0] * (len(ids) - 1)])
    losses = [1.0] * (len(ids) - 1)
    losses[ends[2] : ends[3] - 2] = [0.5] * (ends[3] - 2 - ends[2])  # the fourth sentence gains
    losses[ends[3] : ends[4] - 2] = [1.5] * (ends[4] - 2 - ends[3])  # the fifth loses
    cpr = TokenScores(losses=[losses], correct=softmax.correct)
    found = extreme_sentences([{"input_ids": ids}], tokenizer, softmax, cpr)
    assert found == {"gained": (0, ends[2], ends[3]), "lost": (0, ends[3], ends[4])}
