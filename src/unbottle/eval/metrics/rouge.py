"""ROUGE by the rouge_score package: without stemmer for completions unless asked for, with stemmer for summaries."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbottle.eval.metrics.metric import REFERENCE, Metric, MetricInput, mean_metric

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

KINDS = ("rouge1", "rouge2")
STEMMED_KINDS = {"r1": "rouge1", "r2": "rouge2", "rl": "rougeL"}
SEEN = re.compile(r"[a-zA-Z0-9]")  # rouge_score ignores all other characters


@functools.cache
def _scorer(kinds: tuple[str, ...], stemmer: bool) -> RougeScorer:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ValueError("ROUGE needs the package rouge-score: pip install 'unbottle[eval]'.") from error
    return RougeScorer([*kinds], use_stemmer=stemmer)


def rouge(text: str, reference: str, *, stemmer: bool = False) -> dict[str, float]:
    """F1 in percent, for `rouge1` and `rouge2`."""
    scores = _scorer(KINDS, stemmer).score(reference, text)
    return {kind: 100 * float(scores[kind].fmeasure) for kind in KINDS}


@functools.lru_cache(maxsize=4096)  # r1, r2 and rl are computed one after the other
def stemmed_rouge(text: str, reference: str) -> dict[str, float]:
    """F1 in percent, for `r1`, `r2` and `rl`."""
    scores = _scorer(tuple(STEMMED_KINDS.values()), True).score(reference, text)
    return {name: 100 * float(scores[kind].fmeasure) for name, kind in STEMMED_KINDS.items()}


def implementation(*, stemmer: bool = False) -> str:
    version = importlib.metadata.version("rouge-score")
    how = "Porter stemmer" if stemmer else "no stemmer"
    return f"rouge_score {version}: F1 in percent, mean over texts; {how}, its own words (a-z, 0-9, lower case)"


def stemmed_implementation(name: str = "r1") -> str:
    version = importlib.metadata.version("rouge-score")
    kind = STEMMED_KINDS[name]
    return f"rouge_score {version}, {kind}: F1 in percent, mean over texts; Porter stemmer, words of a-z and 0-9"


def _note(data: MetricInput, values: Sequence[float | None]) -> str:
    unseen = sum(bool(true.strip()) and not SEEN.search(true) for true in data.references)
    return (
        f"{unseen} references have no letter a-z or digit: rouge_score sees nothing there and gives 0" if unseen else ""
    )


def _metric(name: str) -> Metric:
    def compute(data: MetricInput) -> list[float]:
        pairs = zip(data.texts, data.references, strict=True)
        return [stemmed_rouge(text, reference)[name] for text, reference in pairs]

    return mean_metric(name, compute, lambda data: stemmed_implementation(name), REFERENCE, note=_note)


METRICS = {name: _metric(name) for name in STEMMED_KINDS}
