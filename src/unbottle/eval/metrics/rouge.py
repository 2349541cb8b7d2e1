"""ROUGE by the rouge_score package, of whole texts and of their proper nouns alone (R1P), and P Ratio."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbottle.eval.bootstrap import RatioStatistic
from unbottle.eval.metrics.metric import REFERENCE, Metric, MetricInput, MetricResult, mean_metric
from unbottle.eval.proper_nouns import words_of

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

KINDS = {"r1": "rouge1", "r2": "rouge2", "rl": "rougeL"}
SEEN = re.compile(r"[a-zA-Z0-9]")  # rouge_score ignores all other characters


@functools.cache
def _scorer(kinds: tuple[str, ...], stemmer: bool) -> RougeScorer:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ValueError("ROUGE needs the package rouge-score: pip install 'unbottle[eval]'.") from error
    return RougeScorer([*kinds], use_stemmer=stemmer)


@functools.lru_cache(maxsize=4096)  # r1, r2 and rl are computed one after the other
def rouge(
    text: str, reference: str, *, stemmer: bool = False, kinds: tuple[str, ...] = ("rouge1", "rouge2")
) -> dict[str, float]:
    """F1 in percent, of each kind."""
    scores = _scorer(kinds, stemmer).score(reference, text)
    return {kind: 100 * float(scores[kind].fmeasure) for kind in kinds}


def name_overlap(generated: list[str], true: list[str]) -> float:
    """ROUGE-1 of the proper nouns alone, in percent, without a stemmer; 0 where one of the two has none."""
    return rouge(" ".join(generated), " ".join(true))["rouge1"]


def implementation(*, stemmer: bool = False) -> str:
    version = importlib.metadata.version("rouge-score")
    how = "Porter stemmer" if stemmer else "no stemmer"
    return f"rouge_score {version}: F1 in percent, mean over texts; {how}, its own words (a-z, 0-9, lower case)"


def _note(data: MetricInput, values: Sequence[float | None]) -> str:
    unseen = sum(bool(true.strip()) and not SEEN.search(true) for true in data.references)
    return (
        f"{unseen} references have no letter a-z or digit: rouge_score sees nothing there and gives 0" if unseen else ""
    )


def _metric(name: str, kind: str) -> Metric:
    def compute(data: MetricInput) -> list[float]:
        pairs = zip(data.texts, data.references, strict=True)
        return [rouge(text, true, stemmer=True, kinds=tuple(KINDS.values()))[kind] for text, true in pairs]

    def code(data: MetricInput) -> str:
        version = importlib.metadata.version("rouge-score")
        return f"rouge_score {version}, {kind}: F1 in percent, mean over texts; Porter stemmer, words of a-z and 0-9"

    return mean_metric(name, compute, code, REFERENCE, note=_note)


def _names(data: MetricInput) -> list[tuple[list[str], list[str]]]:
    """The proper nouns of each text and of its reference."""
    pairs = zip(data.texts, data.references, strict=True)
    return [(words_of(text, data.tagger(text)), words_of(true, data.tagger(true))) for text, true in pairs]


def _name_overlaps(data: MetricInput) -> list[float]:
    return [name_overlap(generated, true) / 100 for generated, true in _names(data)]


def _name_overlap_code(data: MetricInput) -> str:
    names = f"proper nouns by {data.tagger.description}"
    return f"{names}; {implementation()}; pairs without any count 0; a share, not percent"


def _name_ratio(data: MetricInput) -> dict[str, MetricResult]:
    counts = [(float(len(generated)), float(len(true))) for generated, true in _names(data)]
    numerators, denominators = zip(*counts, strict=True)
    code = f"proper nouns by {data.tagger.description}: those of all summaries to those of all references"
    statistic = RatioStatistic(numerators=numerators, denominators=denominators)
    return {"p-ratio": MetricResult(statistic=statistic, implementation=code)}


METRICS = {
    **{name: _metric(name, kind) for name, kind in KINDS.items()},
    "r1p": mean_metric("r1p", _name_overlaps, _name_overlap_code, REFERENCE),
    "p-ratio": Metric(compute=_name_ratio, outputs=("p-ratio",), needs=(REFERENCE,)),
}
