"""unbottle compare --pairs: output layers on a pretrained encoder-decoder model, which is trained to summarize."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from unbottle.eval.generation import Decoding
from unbottle.experiments.compare import choose_learning_rates, model_hashes, select_rows
from unbottle.experiments.corpora import PairCorpus
from unbottle.experiments.paired import differences_to
from unbottle.experiments.presets import Backbone, Json, SummaryPreset
from unbottle.experiments.results import Column, Experiment, Results, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import run_experiment
from unbottle.experiments.summary_tables import SUMMARIZATION, loss_metrics, measure_summaries
from unbottle.experiments.workspace import SummaryWorkspace
from unbottle.head.projection import form_for
from unbottle.train import SummarizeSettings
from unbottle.train.presets import TINY

BASELINE = "softmax"
SUMMARY_METHODS = (PLAIN, BASELINE, "copynet", "ps", "softmax+ce", "softmax+cepr:20")
ROWS = SummarizeSettings(
    output="", batch=8, lr=3e-4, eps=TINY, warmup_steps=10, epochs=1.0, source_length=256, target_length=64,
    report_to=(), save_every=50, keep=1,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SummaryComparison(SummaryPreset):
    """All rows start from one pretrained model, and see the same pairs in the same order, once.

    The learning rate that is best for the baseline is used for all.
    """

    name: str = "compare"
    about: str = "Output layers on a model and pairs of one's own."
    lrs: tuple[float, ...] = (ROWS.lr,)
    pairs: int  # to train on
    valid_pairs: int  # to choose a learning rate with
    held_out: int  # pairs whose reference summaries have a loss
    baseline: ClassVar[str] = BASELINE

    @classmethod
    def create(
        cls,
        model: str,
        data: str,
        *,
        train: str,
        pairs: int,
        valid_pairs: int,
        test_pairs: int,
        generated: int,
        length: int,
        batch: int | None = None,
        lrs: Sequence[float] | None = None,
        precision: str = ROWS.precision,
    ) -> SummaryComparison:
        """The comparison that options of the command describe."""
        title, rates = Path(model).name, tuple(lrs or (ROWS.lr,))
        for rate in rates:
            replace(ROWS, lr=rate)  # refuses invalid learning rates
        rows = replace(
            ROWS, train=train, source_length=length, batch=batch or ROWS.batch, lr=rates[0], precision=precision
        )
        return cls(
            data=data,
            backbones={title: Backbone(pretrained=model)},
            rows=rows,
            lrs=rates,
            pairs=pairs,
            valid_pairs=valid_pairs,
            table=(title,),
            curve=(title,),
            decoding=Decoding(max_length=rows.target_length, source_length=rows.source_length, batch=rows.batch),
            held_out=test_pairs,
            test_pairs=min(generated, test_pairs),
        )

    @property
    def form(self) -> str:
        return form_for(self.rows.train)

    def to_dict(self) -> Json:
        """For JSON; the data, too, without a path of this machine."""
        return super().to_dict() | {"data": Path(self.data).name}


def select_summary_rows(names: Sequence[str]) -> list[str]:
    """The rows that are named, or else SUMMARY_METHODS."""
    return select_rows(names, SUMMARY_METHODS, BASELINE)


class SummaryCompareWorkspace(SummaryWorkspace):
    """One pretrained model, one set of pairs."""

    preset: SummaryComparison
    lr: float | None = None  # of all rows, once it is chosen
    keep_models = False

    @cached_property
    def settings(self) -> Json:
        return super().settings | {"models": model_hashes(self)}

    @cached_property
    def corpus(self) -> PairCorpus:
        """As many pairs as are asked for."""
        corpus, preset = super().corpus, self.preset
        return PairCorpus(
            train=corpus.train.select(range(min(preset.pairs, len(corpus.train)))),
            valid=corpus.valid.select(range(min(preset.valid_pairs, len(corpus.valid)))),
            test=corpus.test.select(range(min(preset.held_out, len(corpus.test)))),
        )

    @property
    def group(self) -> str:
        """The folder of rows that have the same learning rate, unless they name their own."""
        return "rows" if self.lr is None else f"rows-{self.lr:g}"

    def trained_model(self, method: str, seed: int, size: str) -> Path:
        """The folder of a trained row, or that of the untrained backbone."""
        if RowSpec.parse(method).method is None:
            return Path(self.base(size))
        rows = self.preset.rows
        settings = rows if self.lr is None else replace(rows, lr=self.lr)
        return self.train_row(method, seed, size, data=lambda: self.corpus.train, settings=settings, group=self.group)

    def predictions_file(self, method: str, seed: int, size: str) -> Path:
        return self.folder / "written" / size / f"{RowSpec.parse(method).folder_name}-{seed}.jsonl"


def measure(workspace: SummaryCompareWorkspace, row: RowKey) -> Json:
    """Train and measure a row. The trained model is not kept."""
    metrics = measure_summaries(workspace, row)
    discard(workspace, row)
    return metrics


def measure_valid_loss(workspace: SummaryCompareWorkspace, row: RowKey) -> Json:
    """Train a row, and measure the loss of the validation part alone."""
    model = workspace.load(workspace.trained_model(*row))
    metrics = loss_metrics(workspace, model, workspace.tokenizer_of(row.size), part="valid")
    discard(workspace, row)
    return metrics


def discard(workspace: SummaryCompareWorkspace, row: RowKey) -> None:
    spec = RowSpec.parse(row.method)
    if spec.method is not None and not workspace.keep_models:
        shutil.rmtree(workspace.row_folder(spec, row.seed, row.size, workspace.group))


def compare_summaries(
    workspace: SummaryCompareWorkspace, output: Path, methods: Sequence[str], *, seeds: Sequence[int], command: str
) -> Results:
    """Choose learning rates, run all rows, and return the results, which are in a folder below `output`."""
    preset = workspace.preset
    size, data, train = next(iter(preset.backbones)), Path(workspace.data).name, preset.rows.train
    workspace.lr, specs = choose_learning_rates(
        workspace,
        output / f"{data}-{train}-lr",
        [RowSpec.parse(method) for method in methods],
        measure=measure_valid_loss,
        command=command,
    )
    difference_columns = (
        Column("to Softmax", "difference", 2, "model"),
        Column("95 %", "interval", 2, "model"),
        Column("better", "wins", 2, "model"),
    )
    experiment: Experiment = replace(
        SUMMARIZATION,
        name=f"{data}-{train}",
        title=f"Summaries of {data} by {size} after {preset.pairs:,} pairs, learning rate {workspace.lr:g}",
        methods=tuple(dict.fromkeys(map(str, specs))),
        measure=measure,
        columns=(*SUMMARIZATION.columns[:5], *difference_columns, *SUMMARIZATION.columns[5:]),
        paper={},
        workspace=SummaryCompareWorkspace,
        finish=lambda workspace, rows: differences_to(BASELINE, rows),
        note=f"{SUMMARIZATION.note} To Softmax: difference of perplexities, and its 95 % bootstrap interval over the "
        "pairs of the test part (paired).",
        command=command,
    )
    return run_experiment(experiment, workspace, output / experiment.name, experiment.rows(preset, seeds))
