"""N-grams of a summary that its source does not have."""

from __future__ import annotations

from unbottle.eval.metrics.tokens import DESCRIPTION, ngrams, tokens

IMPLEMENTATION = f"unbottle.eval.metrics.novelty; {DESCRIPTION}; summaries of fewer than n words are left out"


def novelty(summary: str, source: str, n: int) -> float | None:
    """Share of the n-grams of a summary, each as often as it occurs, that do not occur in the source."""
    made, there = ngrams(tokens(summary), n), {*ngrams(tokens(source), n)}
    return sum(ngram not in there for ngram in made) / len(made) if made else None
