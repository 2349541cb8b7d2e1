"""NIST as a function of sums over texts, so that texts can be drawn again without reading them again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from unbottle.eval.metrics.nist import N
from unbottle.eval.metrics.tokens import ngrams
from unbottle.eval.metrics.words import words

COLUMNS = 2 * N + 2  # shared information and n-grams for each n, words of text and reference
BETA = math.log(0.5) / math.log(1.5) ** 2  # a text of 2/3 of the length has half the score


def nist_sums(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """A row for each text: what NIST adds up. The information of an n-gram is that in all references together:

    log2(occurrences of its first n - 1 words / its own); for n = 1, of all words.
    """
    made, true = [words(text) for text in texts], [words(text) for text in references]
    counts = Counter(ngram for reference in true for n in range(1, N + 1) for ngram in ngrams(reference, n))
    total = sum(len(reference) for reference in true)
    rows = np.zeros((len(made), COLUMNS))
    for row, text, reference in zip(rows, made, true, strict=True):
        for n in range(1, N + 1):
            have = Counter(ngrams(text, n))
            shared = have & Counter(ngrams(reference, n))
            row[n - 1] = sum(
                times * math.log2((counts[ngram[:-1]] if n > 1 else total) / counts[ngram])
                for ngram, times in shared.items()
            )
            row[N + n - 1] = sum(have.values())
        row[2 * N :] = len(text), len(reference)
    return rows


def nist_of(sums: np.ndarray) -> np.ndarray:
    """NIST of sums of rows: sum over n of information / n-grams, times exp(beta log(min(1, length / length'))^2)."""
    information, number, made, true = sums[:, :N], sums[:, N : 2 * N], sums[:, -2], sums[:, -1]
    found = np.zeros(len(sums))
    there = (made > 0) & (true > 0)
    shares = np.divide(information, number, out=np.zeros(information.shape), where=number > 0)
    shorter = np.minimum(made[there] / true[there], 1.0)
    found[there] = shares[there].sum(1) * np.exp(BETA * np.log(shorter) ** 2)
    return found
