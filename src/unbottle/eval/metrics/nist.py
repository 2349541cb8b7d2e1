"""NIST, by NLTK."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from unbottle.eval.metrics.words import DESCRIPTION, words

N = 5


def nist(texts: Sequence[str], references: Sequence[str]) -> float:
    """Of all texts together: information that their n-grams of 1 to 5 words share with their reference, for length.

    Orders of n-grams that no text has say nothing; NLTK divides by zero there, so it is asked for the others only.
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
    return f"nltk {version}, corpus_nist, n-grams of 1 to {N} words; {DESCRIPTION}"
