"""The metrics of summaries: what each needs, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unbottle.eval.measured import Corpus, Measured, Ratio
from unbottle.eval.metrics import cider as cider_metric
from unbottle.eval.metrics import entailment as entailment_metric
from unbottle.eval.metrics import fragments, novelty, repetition, stemmed_rouge
from unbottle.eval.metrics import mauve_score as mauve_metric
from unbottle.eval.metrics import nist as nist_metric
from unbottle.eval.metrics import support as support_metric
from unbottle.eval.metrics.nist_sums import nist_of, nist_sums
from unbottle.eval.metrics.tokens import DESCRIPTION, tokens
from unbottle.eval.proper_nouns import Tagger, words_of
from unbottle.eval.summary_examples import Examples

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
        stemmed_rouge.stemmed_rouge(text, true)[name] for text, true in zip(given.texts, given.references, strict=True)
    ]
    unseen = sum(bool(true.strip()) and not stemmed_rouge.SEEN.search(true) for true in given.references)
    note = (
        f"{unseen} references have no letter a-z or digit: rouge_score sees nothing there and gives 0" if unseen else ""
    )
    return {name: Measured(found=Ratio.mean(values), implementation=stemmed_rouge.implementation(name), note=note)}


def names_rouge(given: Given) -> dict[str, Measured]:
    values: list[float | None] = []
    for made, true in _names(given):
        values.append(stemmed_rouge.stemmed_rouge(" ".join(made), " ".join(true))["r1"] if made or true else None)
    code = f"proper nouns by {given.tagger.description}; {stemmed_rouge.implementation()}; pairs without any left out"
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
    values = _each(given, lambda text, source: support_metric.support(text, source, given.tagger))
    without = sum(value is None for value in values)
    note = f"{without} of {len(values)} summaries have no name and no number, and say nothing" if without else ""
    code = support_metric.implementation(given.tagger)
    return {"support": Measured(found=Ratio.mean(values), implementation=code, note=note)}


def copied(given: Given) -> dict[str, Measured]:
    return {
        "copy-rate": Measured(
            found=Ratio.mean(_each(given, fragments.coverage)), implementation=f"coverage: {fragments.IMPLEMENTATION}"
        ),
        "copy-density": Measured(
            found=Ratio.mean(_each(given, fragments.density)), implementation=f"density: {fragments.IMPLEMENTATION}"
        ),
    }


def novel(given: Given, n: int) -> dict[str, Measured]:
    values = _each(given, lambda text, source: novelty.novelty(text, source, n))
    return {f"novel-{n}": Measured(found=Ratio.mean(values), implementation=novelty.IMPLEMENTATION)}


def repeated(given: Given) -> dict[str, Measured]:
    values = {f"repetition-{n}": [repetition.repetition(text, n) for text in given.texts] for n in NS}
    values["repeated-sentences"] = [repetition.repeated_sentences(text) for text in given.texts]
    return {
        name: Measured(found=Ratio.mean(found), implementation=repetition.IMPLEMENTATION)
        for name, found in values.items()
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
    **{name: _one(name, lambda given, name=name: rouge(given, name), REFERENCE) for name in stemmed_rouge.KINDS},  # type: ignore[misc]
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
