"""The metrics of summaries: what each needs, and how it is measured.

Scores of summaries, with intervals; and two runs compared.

Two runs on the same examples: which is better, and is it chance?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unbottle.eval.bootstrap import (
    INTERVAL,
    LEVEL,
    TEST,
    Corpus,
    Drawing,
    Measured,
    Ratio,
    difference_interval,
    interval,
    p_value,
)
from unbottle.eval.metrics import cider as cider_metric
from unbottle.eval.metrics import entailment as entailment_metric
from unbottle.eval.metrics import extractive
from unbottle.eval.metrics import mauve as mauve_metric
from unbottle.eval.metrics import nist as nist_metric
from unbottle.eval.metrics import rouge as rouge_metric
from unbottle.eval.metrics.entailment import Entailment
from unbottle.eval.metrics.mauve import Mauve
from unbottle.eval.metrics.nist import nist_of, nist_sums
from unbottle.eval.metrics.tokens import DESCRIPTION, tokens
from unbottle.eval.proper_nouns import Tagger, words_of
from unbottle.eval.summary_files import Examples
from unbottle.progress import Progress

REFERENCE, SOURCE = "summary", "document"  # what a metric needs, by the name of its column
NS = (1, 2, 3, 4)
Within = Callable[[float, str], None]  # share of a metric that is done, what is done


@dataclass(frozen=True, kw_only=True)
class Given:
    """What metrics work with."""

    examples: Examples
    tagger: Tagger
    entailment: entailment_metric.Entailment = field(default_factory=entailment_metric.Entailment)
    mauve: mauve_metric.Mauve = field(default_factory=mauve_metric.Mauve)
    within: Within = lambda share, text: None

    @property
    def texts(self) -> tuple[str, ...]:
        return self.examples.predictions

    @property
    def references(self) -> tuple[str, ...]:
        if self.examples.references is None:
            raise ValueError("there are no references to compare with.")
        return self.examples.references

    @property
    def sources(self) -> tuple[str, ...]:
        if self.examples.sources is None:
            raise ValueError("there are no sources to compare with.")
        return self.examples.sources


@dataclass(frozen=True, kw_only=True)
class Metric:
    """`measure` gives a number for each name in `gives`; `heavy` needs a model, and runs only if asked for."""

    measure: Callable[[Given], dict[str, Measured]]
    gives: tuple[str, ...]
    needs: tuple[str, ...]
    heavy: bool = False


def rouge(given: Given, name: str) -> dict[str, Measured]:
    values = [
        rouge_metric.stemmed_rouge(text, true)[name] for text, true in zip(given.texts, given.references, strict=True)
    ]
    unseen = sum(bool(true.strip()) and not rouge_metric.SEEN.search(true) for true in given.references)
    note = (
        f"{unseen} references have no letter a-z or digit: rouge_score sees nothing there and gives 0" if unseen else ""
    )
    return {
        name: Measured(found=Ratio.mean(values), implementation=rouge_metric.stemmed_implementation(name), note=note)
    }


def names_rouge(given: Given) -> dict[str, Measured]:
    values: list[float | None] = []
    for made, true in _names(given):
        values.append(rouge_metric.stemmed_rouge(" ".join(made), " ".join(true))["r1"] if made or true else None)
    rouge_code = rouge_metric.stemmed_implementation()
    code = f"proper nouns by {given.tagger.description}; {rouge_code}; pairs without any left out"
    return {"r1p": Measured(found=Ratio.mean(values), implementation=code)}


def names_ratio(given: Given) -> dict[str, Measured]:
    counts = [(float(len(made)), float(len(true))) for made, true in _names(given)]
    found = Ratio(parts=tuple(made for made, _ in counts), wholes=tuple(true for _, true in counts))
    code = f"proper nouns by {given.tagger.description}: those of all summaries to those of all references"
    return {"p-ratio": Measured(found=found, implementation=code)}


def _names(given: Given) -> list[tuple[list[str], list[str]]]:
    both = zip(given.texts, given.references, strict=True)
    tag = given.tagger
    return [(words_of(text, tag(text)), words_of(true, tag(true))) for text, true in both]


def cider(given: Given) -> dict[str, Measured]:
    values = cider_metric.ciders(given.texts, given.references)
    note = "" if len(values) > 1 else "of one example, all weights are zero"
    return {"cider": Measured(found=Ratio.mean(values), implementation=cider_metric.IMPLEMENTATION, note=note)}


def nist(given: Given) -> dict[str, Measured]:
    value = nist_metric.nist(given.texts, given.references)
    sums = nist_sums(given.texts, given.references)
    found = Corpus(value=value, counted=len(given.texts), sums=sums, of=nist_of)
    return {"nist": Measured(found=found, implementation=nist_metric.implementation())}


def mauve(given: Given) -> dict[str, Measured]:
    value = mauve_metric.mauve(given.texts, given.references, given.mauve)
    found = Corpus(value=value, counted=len(given.texts), why="a text drawn twice would make a cluster of its own")
    return {"mauve": Measured(found=found, implementation=mauve_metric.implementation(given.mauve))}


def factcc(given: Given) -> dict[str, Measured]:
    values, note = entailment_metric.entailed(
        given.texts, given.sources, given.entailment, lambda done, total: given.within(done / total, "factcc")
    )
    return {"factcc": Measured(found=Ratio.mean(values), implementation=given.entailment.description(), note=note)}


def support(given: Given) -> dict[str, Measured]:
    values = _each(given, lambda text, source: extractive.support(text, source, given.tagger))
    without = sum(value is None for value in values)
    note = f"{without} of {len(values)} summaries have no name and no number, and say nothing" if without else ""
    code = extractive.support_implementation(given.tagger)
    return {"support": Measured(found=Ratio.mean(values), implementation=code, note=note)}


def copied(given: Given) -> dict[str, Measured]:
    return {
        "copy-rate": Measured(
            found=Ratio.mean(_each(given, extractive.coverage)), implementation=f"coverage: {extractive.FRAGMENTS}"
        ),
        "copy-density": Measured(
            found=Ratio.mean(_each(given, extractive.density)), implementation=f"density: {extractive.FRAGMENTS}"
        ),
    }


def novel(given: Given, n: int) -> dict[str, Measured]:
    values = _each(given, lambda text, source: extractive.novelty(text, source, n))
    return {f"novel-{n}": Measured(found=Ratio.mean(values), implementation=extractive.NOVELTY)}


def repeated(given: Given) -> dict[str, Measured]:
    values = {f"repetition-{n}": [extractive.repetition(text, n) for text in given.texts] for n in NS}
    values["repeated-sentences"] = [extractive.repeated_sentences(text) for text in given.texts]
    return {
        name: Measured(found=Ratio.mean(found), implementation=extractive.REPETITION) for name, found in values.items()
    }


def length(given: Given) -> dict[str, Measured]:
    values = [float(len(tokens(text))) for text in given.texts]
    empty = sum(not value for value in values)
    note = f"{empty} summaries have no word" if empty else ""
    return {"length": Measured(found=Ratio.mean(values), implementation=f"number of {DESCRIPTION}", note=note)}


def _each(given: Given, measure: Callable[[str, str], float | None]) -> list[float | None]:
    return [measure(text, source) for text, source in zip(given.texts, given.sources, strict=True)]


def _one(name: str, measure: Callable[[Given], dict[str, Measured]], *needs: str, heavy: bool = False) -> Metric:
    return Metric(measure=measure, gives=(name,), needs=needs, heavy=heavy)


METRICS: dict[str, Metric] = {
    **{name: _one(name, lambda given, name=name: rouge(given, name), REFERENCE) for name in rouge_metric.STEMMED_KINDS},  # type: ignore[misc]
    "r1p": _one("r1p", names_rouge, REFERENCE),
    "p-ratio": _one("p-ratio", names_ratio, REFERENCE),
    "cider": _one("cider", cider, REFERENCE),
    "nist": _one("nist", nist, REFERENCE),
    "mauve": _one("mauve", mauve, REFERENCE, heavy=True),
    "factcc": _one("factcc", factcc, SOURCE, heavy=True),
    "support": _one("support", support, SOURCE),
    "copy-rate": Metric(measure=copied, gives=("copy-rate", "copy-density"), needs=(SOURCE,)),
    **{f"novel-{n}": _one(f"novel-{n}", lambda given, n=n: novel(given, n), SOURCE) for n in NS},  # type: ignore[misc]
    "repetition": Metric(measure=repeated, gives=(*(f"repetition-{n}" for n in NS), "repeated-sentences"), needs=()),
    "length": _one("length", length),
}
DEFAULT = tuple(name for name, metric in METRICS.items() if not metric.heavy)


def known(names: Sequence[str]) -> tuple[str, ...]:
    """Names of metrics in our order, each once; `all` is all of them."""
    for name in names:
        if name not in METRICS and name != "all":
            raise ValueError(f"metric {name!r}: unknown. Known: {', '.join(METRICS)}, all.")
    if not names:
        raise ValueError(f"no metrics. Known: {', '.join(METRICS)}, all.")
    return tuple(name for name in METRICS if name in names or "all" in names)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What metrics that need a model take, and how intervals are drawn."""

    entailment: Entailment = field(default_factory=Entailment)
    mauve: Mauve = field(default_factory=Mauve)
    drawing: Drawing = field(default_factory=Drawing)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A number. Without one, `why` says why; `note` says what a reader should know.

    `low` and `high` are the ends of its 95 % interval, `rounds` how often examples were drawn for them, `counted` the
    number of examples that say something. `measured` keeps what each example gave.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    counted: int = 0
    implementation: str = ""
    note: str = ""
    why: str = ""
    measured: Measured | None = None

    @property
    def values(self) -> list[float | None] | None:
        """Of each example, where the metric has them."""
        return None if self.measured is None else self.measured.found.values

    def to_dict(self) -> dict[str, Any]:
        parts = {name: value for name, value in vars(self).items() if name != "measured"}
        return {**parts, "values": self.values}


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All scores of one run."""

    ids: tuple[str, ...]
    metrics: Mapping[str, Score]
    tagger: str
    drawing: Drawing

    def to_dict(self) -> dict[str, Any]:
        return {
            "examples": len(self.ids),
            "ids": list(self.ids),
            "tagger": self.tagger,
            "intervals": {"level": LEVEL, "method": INTERVAL, "rounds": self.drawing.rounds, "seed": self.drawing.seed},
            "metrics": {name: score.to_dict() for name, score in self.metrics.items()},
        }


def summary_scores(
    predictions: Iterable[str],
    references: Iterable[str] | None,
    sources: Iterable[str] | None,
    *,
    metrics: Sequence[str] = DEFAULT,
    tagger: Tagger,
    ids: Iterable[str] | None = None,
    options: Options | None = None,
    report: Progress = lambda done, total, text: None,
) -> Scores:
    """Summaries compared with their references and with their sources.

    A metric that can not run says so in its score, and the others run. Examples that a metric says nothing about (no
    name to be supported, fewer than n words) are left out of it; `counted` is the number of the others.
    """
    made = tuple(predictions)
    examples = Examples(
        ids=tuple(map(str, range(1, len(made) + 1))) if ids is None else tuple(ids),
        predictions=made,
        references=None if references is None else tuple(references),
        sources=None if sources is None else tuple(sources),
    )
    return score_examples(examples, metrics=metrics, tagger=tagger, options=options, report=report)


def score_examples(
    examples: Examples,
    *,
    metrics: Sequence[str] = DEFAULT,
    tagger: Tagger,
    options: Options | None = None,
    report: Progress = lambda done, total, text: None,
) -> Scores:
    """The same for examples that are read or made already."""
    chosen = options or Options()
    names = known(metrics)
    found: dict[str, Score] = {}
    for place, name in enumerate(names):
        report(place, len(names), name)

        def within(share: float, text: str, place: int = place) -> None:
            report(place + share, len(names), text)

        given = Given(
            examples=examples, tagger=tagger, entailment=chosen.entailment, mauve=chosen.mauve, within=within
        )  # fmt: skip
        found |= _scores(name, given, chosen.drawing)
    report(len(names), len(names), "done")
    return Scores(ids=examples.ids, metrics=found, tagger=tagger.description, drawing=chosen.drawing)


def _scores(name: str, given: Given, drawing: Drawing) -> dict[str, Score]:
    try:
        measured = METRICS[name].measure(given)
        return {each: _score(found, drawing) for each, found in measured.items()}
    except Exception as error:  # of a package or a checkpoint that is not ours: the other metrics must not be lost
        said = " ".join(str(error).split())
        why = said if isinstance(error, (ValueError, OSError)) and said else f"{type(error).__name__}: {said}"
        return {each: Score(value=None, why=why) for each in METRICS[name].gives}


def _score(measured: Measured, drawing: Drawing) -> Score:
    found = measured.found
    ends = interval(found, drawing)
    notes = [measured.note] if measured.note else []
    if isinstance(found, Corpus) and found.why:
        notes.append(f"no interval: {found.why}")
    return Score(
        value=found.value,
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[1],
        rounds=0 if ends is None else drawing.rounds,
        counted=found.counted,
        implementation=measured.implementation,
        note="; ".join(notes),
        why="" if found.value is not None else "no example has anything to measure",
        measured=measured,
    )


PAIRED_INTERVAL = "percentile bootstrap over examples, the same draws for both runs"


@dataclass(frozen=True, kw_only=True)
class Difference:
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
class Comparison:
    """The differences of all metrics. Their p values are not corrected for how many there are."""

    examples: int
    metrics: Mapping[str, Difference]
    seed: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "difference": "first - second",
            "test": TEST,
            "correction for several metrics": "none",
            "interval": {"level": LEVEL, "method": PAIRED_INTERVAL},
            "seed": self.seed,
            "metrics": {name: vars(found) for name, found in self.metrics.items()},
        }


def compare_summaries(first: Scores, second: Scores) -> Comparison:
    """Two runs compared, metric by metric, by examples with the same id in the same order."""
    if first.ids != second.ids:
        raise ValueError(
            f"runs of {len(first.ids)} and {len(second.ids)} examples, and not with the same ids in the same order: "
            "take those in common first (unbottle.eval.in_common)."
        )
    names = [name for name in first.metrics if name in second.metrics]
    found = {name: _difference(first.metrics[name], second.metrics[name], first) for name in names}
    return Comparison(examples=len(first.ids), metrics=found, seed=first.drawing.seed)


def _difference(first: Score, second: Score, run: Scores) -> Difference:
    if first.value is None or second.value is None or first.measured is None or second.measured is None:
        return Difference(first=first.value, second=second.value, why=first.why or second.why)
    one, other = first.measured.found, second.measured.found
    ends = difference_interval(one, other, run.drawing)
    p = p_value(one, other, run.drawing)
    return Difference(
        first=first.value,
        second=second.value,
        difference=first.value - second.value,
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[1],
        p=p,
        rounds=0 if p is None else run.drawing.rounds,
        why=first.note if p is None else "",
    )
