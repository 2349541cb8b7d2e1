"""Scores of summaries with confidence intervals, and the comparison of two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from unbottle.eval.bootstrap import (
    INTERVAL,
    LEVEL,
    TEST,
    CorpusStatistic,
    Resampling,
    Statistic,
    difference_interval,
    interval,
    p_value,
)
from unbottle.eval.metrics import cider, extractive, model_based, nist, rouge
from unbottle.eval.metrics.metric import REFERENCE, SOURCE, Metric, MetricInput, MetricResult, SummaryScoreOptions
from unbottle.eval.proper_nouns import Tagger
from unbottle.files import Json
from unbottle.progress import Progress, silent

METRICS: dict[str, Metric] = {  # in the order of tables; a new metric is one more line
    **rouge.METRICS,
    **cider.METRICS,
    **nist.METRICS,
    **model_based.METRICS,
    **extractive.METRICS,
}
DEFAULT_METRICS = tuple(name for name, metric in METRICS.items() if not metric.heavy)
PAIRED_INTERVAL = "percentile bootstrap over examples, the same draws for both runs"


def select_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The named metrics in the order of METRICS, each once; `all` selects all of them."""
    for name in names:
        if name not in METRICS and name != "all":
            raise ValueError(f"metric {name!r}: unknown. Known: {', '.join(METRICS)}, all.")
    if not names:
        raise ValueError(f"no metrics. Known: {', '.join(METRICS)}, all.")
    return tuple(name for name in METRICS if name in names or "all" in names)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of the columns of a file."""

    id: str = "id"
    document: str = "document"
    summary: str = "summary"
    prediction: str = "prediction"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Summaries to score: an id and a prediction each, and what they are compared with, or None without any."""

    ids: tuple[str, ...]
    predictions: tuple[str, ...]
    references: tuple[str, ...] | None
    sources: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if not self.predictions:
            raise ValueError("no predictions to score.")
        groups = {"id": self.ids, "reference": self.references, "source": self.sources, "prediction": self.predictions}
        for name, group in groups.items():
            if group is not None and len(group) != len(self.predictions):
                raise ValueError(f"{len(self.predictions)} predictions and {len(group)} {name}s: expected as many.")
        for name, group in groups.items():
            for example, text in zip(self.ids, group or (), strict=False):
                if not isinstance(text, str):
                    raise ValueError(f"example {example}: its {name} is {text!r}, and a text is needed.")
        check_unique(self.ids, "predictions")

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, object]], *, columns: Columns | None = None, needed: Sequence[str] = ()
    ) -> Examples:
        """Examples from the rows of a file.

        `needed` lists fields of `Columns` that every row must have besides a prediction. Without ids, rows are
        numbered. A text that is None counts as empty.
        """
        names, listed = columns or Columns(), [*rows]
        for number, row in enumerate(listed, start=1):
            for name in (names.prediction, *(getattr(names, field) for field in needed)):
                if name not in row:
                    present = ", ".join(map(str, row)) or "none"
                    raise ValueError(f"row {number}: no column {name!r}. There are: {present}.")

        def column(name: str) -> tuple[str, ...] | None:
            """Texts, or whatever a file has in their place, which __post_init__ refuses."""
            if not listed or not all(name in row for row in listed):
                return None
            return cast(tuple[str, ...], tuple("" if row[name] is None else row[name] for row in listed))

        ids = column(names.id)
        if ids is not None and "" in ids:
            raise ValueError(f"row {ids.index('') + 1}: its {names.id!r} is empty, and an id is needed.")
        return cls(
            ids=tuple(map(str, range(1, len(listed) + 1) if ids is None else ids)),
            predictions=column(names.prediction) or (),
            references=column(names.summary),
            sources=column(names.document),
        )

    def select(self, ids: Iterable[str]) -> Examples:
        """The examples with these ids, in this order."""
        places = {name: place for place, name in enumerate(self.ids)}
        chosen = [places[name] for name in ids]
        return Examples(**{name: texts and tuple(texts[i] for i in chosen) for name, texts in vars(self).items()})


def check_unique(ids: Iterable[str], where: str) -> None:
    """Refuse ids that occur more than once."""
    repeated = [name for name, times in Counter(ids).items() if times > 1]
    if repeated:
        more = f" and {len(repeated) - 3} more" if len(repeated) > 3 else ""
        listed = ", ".join(repeated[:3])
        raise ValueError(f"{where}: ids that occur more than once: {listed}{more}. Each must be unique.")


def in_common(first: Examples, second: Examples) -> tuple[Examples, Examples]:
    """Both, reduced to the ids that both have, in the order of the first; references and sources must be the same."""
    known = {*second.ids}
    ids = [name for name in first.ids if name in known]
    if not ids:
        raise ValueError(
            f"the two runs have no id in common: {', '.join(first.ids[:3])}, ... and {', '.join(second.ids[:3])}, ..."
        )
    one, other = first.select(ids), second.select(ids)
    for name in ("reference", "source"):
        texts = (getattr(examples, f"{name}s") or () for examples in (one, other))
        for example, ours, theirs in zip(ids, *texts, strict=False):
            if ours != theirs:
                raise ValueError(f"the two runs have different {name}s for id {example}: they cannot be compared.")
    return one, other


@dataclass(frozen=True, kw_only=True)
class MetricScore:
    """The value of a metric. If it is None, `why` says why; `note` says what a reader should know.

    `low` and `high` are the ends of its 95 % interval, `rounds` is the number of bootstrap rounds, `counted` the number
    of examples that have a value, and `statistic` keeps the values of single examples.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    counted: int = 0
    implementation: str = ""
    note: str = ""
    why: str = ""
    statistic: Statistic | None = None

    @property
    def values(self) -> list[float | None] | None:
        """The value of each example, where the metric has them."""
        return None if self.statistic is None else self.statistic.values

    def to_dict(self) -> Json:
        return {**{name: value for name, value in vars(self).items() if name != "statistic"}, "values": self.values}


@dataclass(frozen=True, kw_only=True)
class SummaryScores:
    """All scores of one run."""

    ids: tuple[str, ...]
    metrics: Mapping[str, MetricScore]
    tagger: str
    resampling: Resampling

    def to_dict(self) -> Json:
        return {
            "examples": len(self.ids),
            "ids": list(self.ids),
            "tagger": self.tagger,
            "intervals": {"level": LEVEL, "method": INTERVAL, **vars(self.resampling)},
            "metrics": {name: score.to_dict() for name, score in self.metrics.items()},
        }


def summary_scores(
    predictions: Iterable[str],
    references: Iterable[str] | None,
    sources: Iterable[str] | None,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tagger: Tagger,
    ids: Iterable[str] | None = None,
    options: SummaryScoreOptions | None = None,
    report: Progress = silent,
) -> SummaryScores:
    """Compare summaries with their references and with their sources.

    A metric that cannot run says so in its score, and the others run. Examples for which a metric is not defined (no
    name to be supported, fewer than n words) are left out of it; `counted` is the number of the others.
    """
    texts = tuple(predictions)
    examples = Examples(
        ids=tuple(map(str, range(1, len(texts) + 1))) if ids is None else tuple(ids),
        predictions=texts,
        references=None if references is None else tuple(references),
        sources=None if sources is None else tuple(sources),
    )
    return score_examples(examples, metrics=metrics, tagger=tagger, options=options, report=report)


def score_examples(
    examples: Examples,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tagger: Tagger,
    options: SummaryScoreOptions | None = None,
    report: Progress = silent,
) -> SummaryScores:
    """The same as `summary_scores`, for Examples."""
    data = MetricInput(
        texts=examples.predictions,
        references=examples.references or (),
        sources=examples.sources or (),
        tagger=tagger,
        options=options or SummaryScoreOptions(),
    )
    names = select_metrics(metrics)
    scores: dict[str, MetricScore] = {}
    for place, name in enumerate(names):
        report(place, len(names), name)

        def within(fraction: float, text: str, place: int = place) -> None:
            report(place + fraction, len(names), text)

        scores |= _compute(METRICS[name], replace(data, report=within))
    report(len(names), len(names), "done")
    resampling = data.options.resampling
    return SummaryScores(ids=examples.ids, metrics=scores, tagger=tagger.description, resampling=resampling)


def _compute(metric: Metric, data: MetricInput) -> dict[str, MetricScore]:
    for need, name, texts in ((REFERENCE, "references", data.references), (SOURCE, "sources", data.sources)):
        if need in metric.needs and not texts:
            return dict.fromkeys(metric.outputs, MetricScore(value=None, why=f"there are no {name} to compare with."))
    try:
        results = metric.compute(data)
        return {name: _score(result, data.options.resampling) for name, result in results.items()}
    except Exception as error:  # of a package or a checkpoint: the other metrics must not be lost
        reason = " ".join(str(error).split())
        if not (isinstance(error, (ValueError, OSError)) and reason):
            reason = f"{type(error).__name__}: {reason}"
        return dict.fromkeys(metric.outputs, MetricScore(value=None, why=reason))


def _score(result: MetricResult, resampling: Resampling) -> MetricScore:
    statistic = result.statistic
    low, high = interval(statistic, resampling) or (None, None)
    notes = [result.note] if result.note else []
    if isinstance(statistic, CorpusStatistic) and statistic.reason:
        notes.append(f"no interval: {statistic.reason}")
    return MetricScore(
        value=statistic.value,
        low=low,
        high=high,
        rounds=0 if low is None else resampling.rounds,
        counted=statistic.counted,
        implementation=result.implementation,
        note="; ".join(notes),
        why="" if statistic.value is not None else "no example has anything to measure",
        statistic=statistic,
    )


@dataclass(frozen=True, kw_only=True)
class MetricDifference:
    """First minus second, the ends of its 95 % interval, and a two-sided p value; or why there is none."""

    first: float | None
    second: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    rounds: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """The differences of all metrics. Their p values are not corrected for the number of metrics."""

    examples: int
    metrics: Mapping[str, MetricDifference]
    seed: int

    def to_dict(self) -> Json:
        return {
            "examples": self.examples,
            "difference": "first - second",
            "test": TEST,
            "correction for several metrics": "none",
            "interval": {"level": LEVEL, "method": PAIRED_INTERVAL},
            "seed": self.seed,
            "metrics": {name: vars(difference) for name, difference in self.metrics.items()},
        }


def compare_summaries(first: SummaryScores, second: SummaryScores) -> MetricComparison:
    """Compare two runs metric by metric, on examples with the same ids in the same order."""
    if first.ids != second.ids:
        raise ValueError(
            f"runs of {len(first.ids)} and {len(second.ids)} examples, and not with the same ids in the same order: "
            "take those in common first (unbottle.eval.in_common)."
        )
    differences = {
        name: _difference(score, second.metrics[name], first.resampling)
        for name, score in first.metrics.items()
        if name in second.metrics
    }
    return MetricComparison(examples=len(first.ids), metrics=differences, seed=first.resampling.seed)


def _difference(first: MetricScore, second: MetricScore, resampling: Resampling) -> MetricDifference:
    if first.value is None or second.value is None or first.statistic is None or second.statistic is None:
        return MetricDifference(first=first.value, second=second.value, why=first.why or second.why)
    low, high = difference_interval(first.statistic, second.statistic, resampling) or (None, None)
    p = p_value(first.statistic, second.statistic, resampling)
    return MetricDifference(
        first=first.value,
        second=second.value,
        difference=first.value - second.value,
        low=low,
        high=high,
        p=p,
        rounds=0 if p is None else resampling.rounds,
        why=first.note if p is None else "",
    )
