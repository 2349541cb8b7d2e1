"""Metric: the interface of the metrics of summaries, their results and their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unbottle.eval.bootstrap import RatioStatistic, Resampling, Statistic
from unbottle.eval.proper_nouns import Tagger

REFERENCE, SOURCE = "summary", "document"  # inputs that a metric may need, by the names of their columns


@dataclass(frozen=True, kw_only=True)
class EntailmentOptions:
    """A classifier from the hub or a folder, and which of its labels means that the source supports the sentence.

    `label` is a name or a number; None takes the one label whose name means support (CORRECT of FactCC, ENTAILMENT).
    """

    model: str = "manueldeprada/FactCC"  # the published checkpoint; its labels are CORRECT and INCORRECT
    label: str | None = None
    batch: int = 16


@dataclass(frozen=True, kw_only=True)
class MauveOptions:
    """The model whose hidden states are the features: a name on the hub, or a folder."""

    model: str = "gpt2-large"
    seed: int = 25  # of the clusters; the package's own


@dataclass(frozen=True, kw_only=True)
class SummaryScoreOptions:
    """Options of the metrics that load a model, and of the intervals."""

    entailment: EntailmentOptions = field(default_factory=EntailmentOptions)
    mauve: MauveOptions = field(default_factory=MauveOptions)
    resampling: Resampling = field(default_factory=Resampling)


@dataclass(frozen=True, kw_only=True)
class MetricInput:
    """What a metric is computed from; `references` and `sources` are empty unless the metric needs them.

    `report` takes the completed fraction of a slow metric and a text.
    """

    texts: Sequence[str]
    references: Sequence[str]
    sources: Sequence[str]
    tagger: Tagger
    options: SummaryScoreOptions
    report: Callable[[float, str], None] = lambda fraction, text: None


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """A metric of one run, and which code computed it; `note` says what a reader should know about it."""

    statistic: Statistic
    implementation: str
    note: str = ""

    @classmethod
    def mean(cls, values: Sequence[float | None], implementation: str, note: str = "") -> MetricResult:
        """The mean of one value per text; a value of None leaves its text out."""
        return cls(statistic=RatioStatistic.mean(values), implementation=implementation, note=note)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """`compute` returns a result for each name in `outputs`.

    `needs` lists REFERENCE or SOURCE; a `heavy` metric loads a model and runs only if it is asked for by name.
    """

    compute: Callable[[MetricInput], dict[str, MetricResult]]
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    heavy: bool = False


def mean_metric(
    name: str,
    compute: Callable[[MetricInput], Sequence[float | None]],
    implementation: Callable[[MetricInput], str],
    *needs: str,
    note: Callable[[MetricInput, Sequence[float | None]], str] = lambda data, values: "",
) -> Metric:
    """A metric that is the mean of one value per text; a value of None leaves its text out."""

    def result(data: MetricInput) -> dict[str, MetricResult]:
        values = compute(data)
        return {name: MetricResult.mean(values, implementation(data), note(data, values))}

    return Metric(compute=result, outputs=(name,), needs=needs)
