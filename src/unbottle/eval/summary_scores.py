"""Scores of summaries, with intervals; and two runs compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unbottle.eval.measured import Corpus, Measured
from unbottle.eval.metrics.entailment import Entailment
from unbottle.eval.metrics.mauve_score import Mauve
from unbottle.eval.proper_nouns import Tagger
from unbottle.eval.resampling import INTERVAL, LEVEL, Drawing, interval
from unbottle.eval.summary_examples import Examples
from unbottle.eval.summary_metrics import DEFAULT, METRICS, Given, known

Report = Callable[[float, float, str], None]  # work done, work in all, what is done


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
    report: Report = lambda done, total, text: None,
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
    report: Report = lambda done, total, text: None,
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
