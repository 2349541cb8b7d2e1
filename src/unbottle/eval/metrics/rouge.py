"""ROUGE-1 and ROUGE-2, by the rouge_score package.

ROUGE-1, ROUGE-2 and ROUGE-L with stemmer, as summaries are scored, by the rouge_score package.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
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


STEMMED_KINDS = {"r1": "rouge1", "r2": "rouge2", "rl": "rougeL"}
SEEN = re.compile(r"[a-zA-Z0-9]")  # rouge_score reads nothing else


@functools.cache
def _stemmed_scorer() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ValueError("ROUGE needs the package rouge-score: pip install 'unbottle[eval]'.") from error
    return RougeScorer([*STEMMED_KINDS.values()], use_stemmer=True)


@functools.lru_cache(maxsize=4096)  # r1, r2 and rl are asked for one after the other
def stemmed_rouge(text: str, reference: str) -> dict[str, float]:
    """F1 in percent, for `r1`, `r2` and `rl`."""
    found = _stemmed_scorer().score(reference, text)
    return {name: 100 * float(found[kind].fmeasure) for name, kind in STEMMED_KINDS.items()}


def stemmed_implementation(name: str = "r1") -> str:
    version = importlib.metadata.version("rouge-score")
    kind = STEMMED_KINDS[name]
    return f"rouge_score {version}, {kind}: F1 in percent, mean over texts; Porter stemmer, words of a-z and 0-9"
