"""What a summary copies, invents and repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.nist_score import corpus_nist

from unbottle.eval.metrics.extractive import (
    coverage,
    density,
    fragments,
    items,
    novelty,
    numbers,
    possible_numbers,
    repeated_sentences,
    repetition,
    support,
)
from unbottle.eval.metrics.nist import nist_of, nist_sums
from unbottle.eval.metrics.tokens import sentences, tokens
from unbottle.eval.proper_nouns import tagger

RULES = tagger("rules")
WORDS = st.lists(st.sampled_from("abc"), max_size=9)


@given(WORDS, WORDS)
def test_fragments_by_their_definition(summary: list[str], source: list[str]) -> None:
    """Grusky et al., figure 3: every start, every place, the longest; on to the word after it."""
    found, i = [], 0
    while i < len(summary):
        lengths = [
            n
            for j in range(len(source))
            for n in range(1, len(summary) - i + 1)
            if summary[i : i + n] == source[j : j + n]
        ]
        found += [max(lengths)] if lengths else []
        i += max(lengths, default=1)
    assert fragments(summary, source) == found


def test_coverage_and_density() -> None:
    summary, source = "The king met Anna here", "the king saw that anna, here, slept"
    assert coverage(summary, source) == 4 / 5
    assert density(summary, source) == (4 + 4) / 5  # `the king` and `anna here`
    assert (coverage("", "a"), density(".", "a"), coverage("a", "")) == (None, None, 0.0)


def test_novelty() -> None:
    assert [novelty("a b a x", "b a b", n) for n in (1, 2, 3, 4)] == [1 / 4, 1 / 3, 1.0, 1.0]
    assert novelty("a b", "", 1) == 1.0
    assert novelty("a", "a", 2) is None


def test_repetition() -> None:
    assert [repetition("a b a b", n) for n in (1, 2, 3, 4)] == [1 / 2, 1 / 3, 0.0, 0.0]
    assert repetition("a", 2) is None
    assert repeated_sentences('He said "no." He left. he  left! Why?') == 1 / 4
    assert repeated_sentences("...") is None


def test_tokens() -> None:
    assert tokens("Don\u2019t; 1,000 re-do_it") == ["don't", "1", "000", "re", "do", "it"]
    assert tokens("猫とdog") == ["猫", "と", "dog"]
    assert tokens("हिन्दी e\u0301te\u0301") == ["हिन्दी", "\u00e9t\u00e9"]
    assert sentences('Say "no." Go!\nNow\n\n...') == ['Say "no."', "Go!", "Now"]
    assert sentences("猫。犬。") == ["猫。", "犬。"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,000 and 2000", {"1000", "2000"}),
        ("1'234'567 or 1.234.567", {"1234567"}),
        ("12\u00a0500", {"12500"}),
        ("1,5 or 1.50, 5.0", {"1.5", "5"}),
        ("Twelve men, twenty dogs, someone", {"12", "20"}),
        ("the 1990s, F16 and 007", {"1990", "16", "7"}),
        ("17:30 on 3.10.2021", {"17", "30", "3.10.2021"}),
        ("٣ cats, 0 dogs", {"3", "0"}),
        ("235, 000", {"235", "0"}),
    ],
)
def test_numbers(text: str, wanted: set[str]) -> None:
    assert numbers(text) == wanted


def test_numbers_of_a_text_cut_into_words() -> None:
    assert possible_numbers("235, 000 and 98. 7 in 2010, 300 men") >= {"235000", "98.7", "2010", "300"}


def test_support() -> None:
    source = "BERLIN: Anna's sister met three men and 1,200 women in 1999."
    assert support("There Anna met 3 men.", source, RULES) == 1.0
    assert support("In Berlin, Tom met Anna\u2019s sister and 1200 women.", source, RULES) == 3 / 4
    assert support("She met four men, four, in 1999.", source, RULES) == 1 / 2  # each once
    assert support("One of them left.", source, RULES) is None
    assert support("", source, RULES) is None
    assert support("He saw Tom.", "", RULES) == 0.0
    assert support("So says O'Neill.", "o\u2019neill spoke", RULES) == 1.0
    assert items("So Anna saw Anna and 2 of Fifteen in F16.", RULES) == {"anna", "2", "15", "16"}


def test_support_of_names_that_are_tagged_with_their_ending() -> None:
    def whole(text: str) -> list[tuple[int, int]]:
        return [(0, len(text.split()[0]))]

    assert items("Anna\u2019s dog", whole) == {"anna"}
    assert support("Anna's dog", "ANNA has a dog", whole) == 1.0


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_sums_of_nist(rows: list[tuple[list[str], list[str]]]) -> None:
    made, true = [" ".join(text) for text, _ in rows], [" ".join(text) for _, text in rows]
    [found] = nist_of(nist_sums(made, true).sum(0, keepdims=True))
    longest = max(len(text) for text, _ in rows)
    if longest and any(text for _, text in rows):
        wanted = corpus_nist([[text] for _, text in rows], [text for text, _ in rows], n=min(5, longest))
        assert found == pytest.approx(wanted, abs=1e-9)
    else:
        assert found == 0
