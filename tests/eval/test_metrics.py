"""Metrics give the numbers of the implementations they name."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.nist_score import corpus_nist

from unbottle.eval.completion import names_after, scores
from unbottle.eval.metrics.cider import cider
from unbottle.eval.metrics.nist import nist
from unbottle.eval.metrics.rouge import implementation, rouge
from unbottle.eval.metrics.tokens import words

TEXTS = st.lists(
    st.tuples(*[st.lists(st.sampled_from("abcde"), max_size=9).map(" ".join)] * 2), min_size=1, max_size=5
)  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "references", "value"),  # the values are those of pycocoevalcap 1.2, cider.cider.Cider().compute_score
    [
        (["the king met the queen", "a man saw a woman in paris"],
         ["the king saw the queen", "a man met a woman in london"], 3.5436507936507944),
        (["x y z", "a b c d e f", "the cat sat"], ["x y z", "a b c q e f g", "the the cat"], 4.830135398414845),
        (["one two three four five six", "six seven eight", "nine"],
         ["one two three four five six", "one two three", "ten"], 3.3333333333333335),
    ],
)  # fmt: skip
def test_cider_of_the_caption_evaluation(texts: list[str], references: list[str], value: float) -> None:
    assert cider(texts, references) == pytest.approx(value, abs=1e-12)
    assert cider([text.upper() for text in texts], references) == 0.0  # case is kept, as by word_tokenize


def test_words_are_those_of_nltk() -> None:
    """What word_tokenize returns, whose data must be downloaded: the second sentence is from its documentation."""
    assert words("He can't go. She went, (I think).") == [
        "He", "ca", "n't", "go", ".", "She", "went", ",", "(", "I", "think", ")", ".",
    ]  # fmt: skip
    text = "Good muffins cost $3.88\nin New York.  Please buy me two of them.\n\nThanks."
    assert words(text) == [
        "Good", "muffins", "cost", "$", "3.88", "in", "New", "York", ".", "Please", "buy", "me", "two", "of", "them",
        ".", "Thanks", ".",
    ]  # fmt: skip


@given(TEXTS)
def test_cider_by_its_equation(pairs: list[tuple[str, str]]) -> None:
    """One n after the other, with lists of n-grams."""
    texts, references = [first for first, _ in pairs], [second for _, second in pairs]

    def cut(text: str, n: int) -> list[tuple[str, ...]]:
        found = text.split()
        return [tuple(found[i : i + n]) for i in range(len(found) - n + 1)]

    total = 0.0
    for text, reference in pairs:
        for n in range(1, 5):
            vectors = []
            for counts in (Counter(cut(text, n)), Counter(cut(reference, n))):
                holding = {gram: max(1, sum(gram in cut(other, n) for other in references)) for gram in counts}
                vectors.append({gram: counts[gram] * math.log(len(texts) / holding[gram]) for gram in counts})
            shared = [(value, vectors[1].get(gram, 0)) for gram, value in vectors[0].items()]
            product = sum(min(value, other) * other for value, other in shared)
            sizes = math.prod(math.sqrt(sum(value**2 for value in vector.values())) for vector in vectors)
            longer = len(cut(text, 2)) - len(cut(reference, 2))
            total += math.exp(-(longer**2) / 72) * (product / sizes if sizes else 0.0)
    assert cider(texts, references) == pytest.approx(10 * total / 4 / len(pairs), abs=1e-9)


@given(TEXTS)
def test_nist_never_divides_by_zero(pairs: list[tuple[str, str]]) -> None:
    texts, references = [first for first, _ in pairs], [second for _, second in pairs]
    found = nist(texts, references)
    assert found >= 0
    if any(len(text.split()) >= 5 for text in texts) and any(references):
        assert found == corpus_nist([[text.split()] for text in references], [text.split() for text in texts])


def test_nist_counts_five_words() -> None:
    text, other = "a b c d e f", "a b c d e a b c d f"
    assert nist([text], [other]) == corpus_nist([[other.split()]], [text.split()], n=5)
    assert nist([text], [other]) != corpus_nist([[other.split()]], [text.split()], n=4)


def test_rouge() -> None:
    found = rouge("the king met Anna", "The king saw Anna .")
    assert found == {"rouge1": pytest.approx(75.0), "rouge2": pytest.approx(100 / 3)}
    assert rouge("", "the") == {"rouge1": 0.0, "rouge2": 0.0}
    assert rouge("kings", "king")["rouge1"] == 0.0  # no stemmer
    assert "no stemmer" in implementation()
    assert rouge("kings", "king", stemmer=True)["rouge1"] == 100.0
    assert "Porter stemmer" in implementation(stemmer=True)


class Upper:
    """Words in upper case, wherever they stand."""

    name, version, description = "upper", "1", "upper case"

    def __call__(self, text: str) -> list[tuple[int, int]]:
        found, place = [], 0
        for word in text.split(" "):
            found += [(place, place + len(word))] if word.isupper() else []
            place += len(word) + 1
        return found


def test_scores_of_continuations() -> None:
    rows = [
        {"prompt": "ANNA met BERTA", "continuation": "then ANNA and CLARA left", "reference": "then ANNA had left"},
        {"prompt": "x y", "continuation": "so it goes", "reference": "so it went"},  # no names: counts 0
        {"prompt": "DORA slept", "continuation": "and woke", "reference": "with EMIL there"},
    ]
    found = scores(rows, Upper())
    assert found["R1P"] == pytest.approx(100 * (2 / 3 + 0 + 0) / 3)  # {ANNA, CLARA} and {ANNA}; {}; {} and {EMIL}
    assert found["R1PC"] == pytest.approx(100 * (1 / 2 + 0 + 0) / 3)
    assert found["P Ratio"] == pytest.approx(2 / 2)
    assert found["R1"] == pytest.approx(100 * (6 / 9 + 2 / 3 + 0) / 3)
    assert found["R1C"] == pytest.approx(100 * (2 / 8 + 0 + 0) / 3)
    assert found["R2"] == pytest.approx(100 * (2 / 7 + 1 / 2 + 0) / 3)
    assert list(found) == ["R1", "R1C", "R1P", "R1PC", "R2", "P Ratio", "CIDEr", "NIST"]
    without = scores(rows[1:2], Upper())
    assert (without["R1P"], without["R1PC"], without["P Ratio"]) == (0, 0, None)
    stemmed = scores([{"prompt": "A", "continuation": "kings", "reference": "king"}], Upper(), stemmer=True)
    assert (stemmed["R1"], stemmed["R1P"]) == (100, 0)


def test_names_are_those_after_the_prompt() -> None:
    assert names_after("ANNA met", "BERTA and c", Upper()) == ["BERTA"]
