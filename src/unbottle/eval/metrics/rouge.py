"""ROUGE-1 and ROUGE-2, by the rouge_score package."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any

KINDS = ("rouge1", "rouge2")


@functools.cache
def _scorer() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ValueError("ROUGE needs the package rouge-score: pip install 'unbottle[eval]'.") from error
    return RougeScorer([*KINDS], use_stemmer=False)


def rouge(text: str, reference: str) -> dict[str, float]:
    """F1 in percent, for `rouge1` and `rouge2`."""
    found = _scorer().score(reference, text)
    return {kind: 100 * float(found[kind].fmeasure) for kind in KINDS}


def implementation() -> str:
    version = importlib.metadata.version("rouge-score")
    return f"rouge_score {version}: F1 in percent, mean over texts; no stemmer, its own words (a-z, 0-9, lower case)"
