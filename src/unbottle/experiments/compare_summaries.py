"""The same for encoder-decoder models: summaries by output layers that were trained from the same weights.

What a comparison is told, checked before anything is loaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from unbottle.data.sources import is_python
from unbottle.eval.generation import Decoding
from unbottle.experiments.compare import (
    LEARNING_RATES,
    METHODS,
    ROWS,
    SOFTMAX,
    Comparison,
    comparison,
    named_model,
    together,
)
from unbottle.experiments.corpora import PairCorpus, content_of
from unbottle.experiments.demo_model import pretrained, user_cache
from unbottle.experiments.demo_plan import SMOLLM2
from unbottle.experiments.presets import Backbone, SummaryPreset
from unbottle.experiments.results import Column, Experiment, Record
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.runner import reproduce
from unbottle.experiments.summary_tables import SUMMARIZATION
from unbottle.experiments.summary_tables import measure as measure_summaries
from unbottle.experiments.workspace import SummaryLab
from unbottle.head.projection import DEFAULT_FORM
from unbottle.train import SummarizeSettings
from unbottle.train.presets import TINY

BASELINE = "softmax"
SUMMARY_METHODS = ("plain", BASELINE, "copynet", "ps", "softmax+ce", "softmax+cepr:20")
WRITTEN = 100  # summaries of the first so many held-out documents are written
SUMMARY_ROWS = SummarizeSettings(
    output="",
    batch=8,
    lr=3e-4,
    eps=TINY,
    warmup_steps=10,
    epochs=1.0,
    source_length=256,
    target_length=64,
    save_every=50,
    keep=1,
    report_to=(),
)


@dataclass(frozen=True, kw_only=True)
class SummaryComparison(SummaryPreset):
    """All rows start from one pretrained model, and see the same pairs in the same order, once."""

    name: str = "compare"
    about: str = "Output layers on a model and pairs of one's own."
    pairs: int  # to train on
    held_out: int  # whose true summaries have a loss

    def to_dict(self) -> dict[str, Any]:
        return super(SummaryComparison, replace(self, data=Path(self.data).name, backbones=named_model(self))).to_dict()


def summary_comparison(
    model: str, data: str, *, train: str, pairs: int, test_pairs: int, length: int, batch: int, lr: float
) -> SummaryComparison:
    """Of this model."""
    title = Path(model).name
    rows = replace(SUMMARY_ROWS, train=train, source_length=length, batch=batch, lr=lr)
    return SummaryComparison(
        data=data,
        backbones={title: Backbone(pretrained=model)},
        rows=rows,
        pairs=pairs,
        table=(title,),
        curve=(title,),
        decoding=Decoding(max_length=rows.target_length, source_length=rows.source_length, batch=batch),
        held_out=test_pairs,
        test_pairs=min(WRITTEN, test_pairs),
    )


class SummaryCompareLab(SummaryLab):
    """One pretrained model, one set of pairs."""

    form = DEFAULT_FORM
    keep_models = False

    @classmethod
    def suffix(cls, data: str) -> str:
        return ""

    @cached_property
    def corpus(self) -> PairCorpus:
        """As much of it as is asked for."""
        corpus = super().corpus
        return PairCorpus(
            train=corpus.train.select(range(min(self.preset.pairs, len(corpus.train)))),
            test=corpus.test.select(range(min(self.preset.held_out, len(corpus.test)))),
        )

    @cached_property
    def settings(self) -> dict[str, Any]:
        models = {size: content_of(str(backbone.pretrained)) for size, backbone in self.preset.backbones.items()}
        return super().settings | {"models": models}

    def trained(self, method: str, seed: int, *, size: str) -> Path:
        """`plain` is not trained at all."""
        if Variant.parse(method).method is None:
            return Path(self.base(size))
        return self.row(lambda: self.corpus.train, self.preset.rows, method, seed, "rows", size)

    def place(self, method: str, seed: int, *, size: str) -> Path:
        """For what a model writes."""
        return self.folder / "written" / size / f"{Variant.parse(method).folder}-{seed}.jsonl"


def measure(lab: SummaryCompareLab, method: str, seed: int, size: str) -> dict[str, Any]:
    found = measure_summaries(lab, method, seed, size)
    folder = lab.trained(method, seed, size=size)
    if Variant.parse(method).method is not None and not lab.keep_models:
        shutil.rmtree(folder.parent)
    return found


def compare_summaries(
    lab: SummaryCompareLab, output: Path, methods: Sequence[str], *, seeds: Sequence[int], told: str
) -> Record:
    """The record of all rows; what is done already is not done again."""
    size, data, train = next(iter(lab.preset.backbones)), Path(lab.data).name, lab.preset.rows.train
    pair = (
        Column("to Softmax", "difference", 2, "model"),
        Column("95 %", "interval", 2, "model"),
        Column("better", "wins", 2, "model"),
    )
    experiment: Experiment = replace(
        SUMMARIZATION,
        name=f"{data}-{train}",
        title=f"Summaries of {data} by {size} after {lab.preset.pairs:,} pairs, learning rate {lab.preset.rows.lr:g}",
        methods=tuple(str(Variant.parse(method)) for method in methods),
        measure=measure,
        columns=(*SUMMARIZATION.columns[:4], *pair, *SUMMARIZATION.columns[4:]),
        paper_by_data={},
        paper_columns=(),
        lab=SummaryCompareLab,
        finish=partial(together, baseline=BASELINE),
        note=f"{SUMMARIZATION.note} To Softmax: difference of perplexities, its interval by drawing the pairs of the "
        "test again, the same for both.",
        told=told,
    )
    return reproduce(experiment, lab, output, seeds=seeds)


OF_THE_DEMO = "smollm2"


def comparison_from(
    model: str,
    data: str,
    train: str,
    *,
    tokens: tuple[int, int, int],
    length: int,
    batch: int | None,
    lrs: Sequence[float] | None,
    tagger: str | None,
) -> Comparison:
    """As the command says it."""
    rates = tuple(lrs or LEARNING_RATES)
    for rate in rates:
        replace(ROWS, lr=rate)  # refuses what is no learning rate
    return comparison(
        model,
        data,
        rows=replace(ROWS, train=train, length=length, batch=batch or ROWS.batch, lr=rates[0]),
        lrs=rates,
        train_tokens=tokens[0],
        valid_tokens=tokens[1],
        test_tokens=tokens[2],
        tagger=tagger or ("identifiers" if is_python(data) else "auto"),
    )


def summary_comparison_from(
    model: str,
    data: str,
    train: str,
    *,
    pairs: int,
    test_pairs: int,
    length: int,
    batch: int | None,
    lrs: Sequence[float] | None,
) -> SummaryComparison:
    if lrs is not None and len(lrs) > 1:
        raise ValueError(f"--lr {', '.join(f'{rate:g}' for rate in lrs)}: give one, where summaries are learnt.")
    lr = SUMMARY_ROWS.lr if lrs is None else lrs[0]
    batch = batch or SUMMARY_ROWS.batch
    sizes = {"pairs": pairs, "test_pairs": test_pairs, "length": length, "batch": batch}
    return summary_comparison(model, data, train=train, lr=lr, **sizes)


def rows_from(names: Sequence[str], *, summaries: bool = False) -> list[str]:
    """Each row once, and always the baseline, which all others are compared with."""
    usual: tuple[str, ...] = METHODS
    baseline = SOFTMAX
    if summaries:
        usual, baseline = SUMMARY_METHODS, BASELINE
    variants = [Variant.parse(name) for name in names or usual]
    for variant in variants:
        if summaries and len(variant.choices) > 1:
            raise ValueError(f"{str(variant)!r}: give one learning rate, where summaries are learnt.")
    rows = [str(variant) for variant in variants]
    return [*dict.fromkeys(rows if baseline in rows else [baseline, *rows])]


def with_model(how: Any, report: Any) -> Any:
    """The model of the demo is fetched if it is not here yet."""
    fetched = {
        title: Backbone(pretrained=str(pretrained(SMOLLM2, user_cache(), report)))
        if backbone.pretrained == OF_THE_DEMO
        else backbone
        for title, backbone in how.backbones.items()
    }
    return replace(how, backbones=fetched)
