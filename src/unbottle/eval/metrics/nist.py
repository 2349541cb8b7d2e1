"""NIST by NLTK, and as a function of sums over texts, so that texts can be resampled."""

from __future__ import annotations

import importlib.metadata
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from unbottle.eval.bootstrap import CorpusStatistic
from unbottle.eval.metrics.metric import REFERENCE, Metric, MetricInput, MetricResult
from unbottle.eval.metrics.tokens import WORDS, ngrams, words

N = 5
COLUMNS = 2 * N + 2  # shared information and n-grams for each n, words of text and reference
BETA = math.log(0.5) / math.log(1.5) ** 2  # a text of 2/3 of the length has half the score


def nist_sums(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """A row for each text with the terms that NIST sums up.

    The information of an n-gram is log2(occurrences of its first n - 1 words / its own) in all references together; for
    n = 1, the first count is that of all words.
    """
    generated, true = [words(text) for text in texts], [words(text) for text in references]
    counts = Counter(ngram for reference in true for n in range(1, N + 1) for ngram in ngrams(reference, n))
    total = sum(len(reference) for reference in true)
    rows = np.zeros((len(generated), COLUMNS))
    for row, text, reference in zip(rows, generated, true, strict=True):
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
    information, number, length, true_length = sums[:, :N], sums[:, N : 2 * N], sums[:, -2], sums[:, -1]
    scores = np.zeros(len(sums))
    nonempty = (length > 0) & (true_length > 0)
    shares = np.divide(information, number, out=np.zeros(information.shape), where=number > 0)
    shorter = np.minimum(length[nonempty] / true_length[nonempty], 1.0)
    scores[nonempty] = shares[nonempty].sum(1) * np.exp(BETA * np.log(shorter) ** 2)
    return scores


def nist(texts: Sequence[str], references: Sequence[str]) -> float:
    """The score of all texts together: the information of n-grams of 1 to 5 words shared with their references.

    NLTK divides by zero for lengths of n-grams that no text has, so it gets the others only.
    """
    try:
        from nltk.translate.nist_score import corpus_nist
    except ImportError as error:
        raise ValueError("NIST needs the package nltk: pip install 'unbottle[eval]'.") from error
    hypotheses = [words(text) for text in texts]
    longest = max((len(hypothesis) for hypothesis in hypotheses), default=0)
    wanted = [[words(reference)] for reference in references]
    if not longest or not any(reference for [reference] in wanted):
        return 0.0
    return float(corpus_nist(wanted, hypotheses, n=min(N, longest)))


def implementation() -> str:
    version = importlib.metadata.version("nltk")
    return f"nltk {version}, corpus_nist, n-grams of 1 to {N} words; {WORDS}"


def _compute(data: MetricInput) -> dict[str, MetricResult]:
    statistic = CorpusStatistic(
        value=nist(data.texts, data.references),
        counted=len(data.texts),
        rows=nist_sums(data.texts, data.references),
        of_sums=nist_of,
    )
    return {"nist": MetricResult(statistic=statistic, implementation=implementation())}


METRICS = {"nist": Metric(compute=_compute, outputs=("nist",), needs=(REFERENCE,))}
