"""CIDEr as the COCO caption evaluation computes it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from unbottle.eval.metrics.metric import REFERENCE, mean_metric
from unbottle.eval.metrics.tokens import WORDS, ngrams, words

N = 4  # n-grams of 1 to N words
SIGMA = 6.0  # of the penalty on a difference in length
IMPLEMENTATION = (
    "unbottle.eval.metrics.cider: equals pycocoevalcap.cider.Cider (clipped counts and a penalty on length with "
    f"sigma 6, as in CIDEr-D; the factor 10); document frequencies from the references of this set; {WORDS}"
)
Ngram = tuple[str, ...]


def cider(texts: Sequence[str], references: Sequence[str]) -> float:
    """The mean of `ciders`."""
    return sum(ciders(texts, references)) / len(texts)


def ciders(texts: Sequence[str], references: Sequence[str]) -> list[float]:
    """For each text, with g the tf-idf vectors of the n-grams of a text and of its reference,

        10 / 4  sum over n = 1..4 of  exp(-(l - l')^2 / (2 * 6^2))  min(g, g') . g' / (|g| |g'|)

    tf is a count and idf = log(number of texts) - log(references that hold the n-gram), 1 of them at least; l counts
    bigrams, as the original code does. With one text, all idf are zero, and so is the score.
    """
    if len(texts) != len(references) or not texts:
        raise ValueError(f"{len(texts)} texts and {len(references)} references: expected as many, and one or more.")
    counted = [_counts(reference) for reference in references]
    documents = Counter(ngram for counts in counted for ngram in counts)
    log_number = math.log(len(texts))

    def weighted(counts: Counter[Ngram]) -> dict[Ngram, float]:
        return {ngram: count * (log_number - math.log(max(1, documents[ngram]))) for ngram, count in counts.items()}

    scores = []
    for text, reference_counts in zip(texts, counted, strict=True):
        counts = _counts(text)
        longer = _bigrams(counts) - _bigrams(reference_counts)
        scores.append(10 * _similarity(weighted(counts), weighted(reference_counts), longer))
    return scores


def _counts(text: str) -> Counter[Ngram]:
    cut = words(text)
    return Counter(ngram for n in range(1, N + 1) for ngram in ngrams(cut, n))


def _bigrams(counts: Counter[Ngram]) -> int:
    return sum(count for ngram, count in counts.items() if len(ngram) == 2)


def _similarity(text: dict[Ngram, float], reference: dict[Ngram, float], longer: int) -> float:
    products, norms, reference_norms = [0.0] * N, [0.0] * N, [0.0] * N
    for ngram, weight in text.items():
        other = reference.get(ngram, 0.0)
        products[len(ngram) - 1] += min(weight, other) * other
        norms[len(ngram) - 1] += weight**2
    for ngram, weight in reference.items():
        reference_norms[len(ngram) - 1] += weight**2
    cosines = [
        product / math.sqrt(norm * reference_norm) if norm and reference_norm else product
        for product, norm, reference_norm in zip(products, norms, reference_norms, strict=True)
    ]
    return math.exp(-(longer**2) / (2 * SIGMA**2)) * sum(cosines) / N


METRICS = {
    "cider": mean_metric(
        "cider",
        lambda data: ciders(data.texts, data.references),
        lambda data: IMPLEMENTATION,
        REFERENCE,
        note=lambda data, values: "" if len(values) > 1 else "with a single example, all weights are zero",
    )
}
