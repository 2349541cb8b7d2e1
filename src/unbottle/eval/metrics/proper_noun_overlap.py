"""R1P and P Ratio: the proper nouns of summaries compared with those of their references."""

from __future__ import annotations

from unbottle.eval.bootstrap import MetricResult, RatioStatistic
from unbottle.eval.metrics.metric import REFERENCE, Metric, MetricInput, mean_metric
from unbottle.eval.metrics.rouge import implementation as rouge_implementation
from unbottle.eval.metrics.rouge import rouge
from unbottle.eval.proper_nouns import words_of


def _names(data: MetricInput) -> list[tuple[list[str], list[str]]]:
    """The proper nouns of each text and of its reference."""
    pairs = zip(data.texts, data.references, strict=True)
    return [(words_of(text, data.tagger(text)), words_of(true, data.tagger(true))) for text, true in pairs]


def name_overlap(generated: list[str], true: list[str]) -> float:
    """ROUGE-1 of the proper nouns alone, in percent, without a stemmer; 0 where one of the two has none."""
    return rouge(" ".join(generated), " ".join(true))["rouge1"]


def _rouge(data: MetricInput) -> list[float]:
    return [name_overlap(generated, true) / 100 for generated, true in _names(data)]


def _rouge_implementation(data: MetricInput) -> str:
    names = f"proper nouns by {data.tagger.description}"
    return f"{names}; {rouge_implementation()}; pairs without any count 0; a share, not percent"


def _ratio(data: MetricInput) -> dict[str, MetricResult]:
    counts = [(float(len(generated)), float(len(true))) for generated, true in _names(data)]
    numerators, denominators = zip(*counts, strict=True)
    code = f"proper nouns by {data.tagger.description}: those of all summaries to those of all references"
    statistic = RatioStatistic(numerators=numerators, denominators=denominators)
    return {"p-ratio": MetricResult(statistic=statistic, implementation=code)}


METRICS = {
    "r1p": mean_metric("r1p", _rouge, _rouge_implementation, REFERENCE),
    "p-ratio": Metric(compute=_ratio, outputs=("p-ratio",), needs=(REFERENCE,)),
}
