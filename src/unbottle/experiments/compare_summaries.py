"""unbottle compare --pairs: output layers on a pretrained encoder-decoder model, which is trained to summarize."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from unbottle.eval.generation import Decoding
from unbottle.experiments.compare import model_hashes, select_rows
from unbottle.experiments.corpora import PairCorpus
from unbottle.experiments.paired import differences_to
from unbottle.experiments.presets import Backbone, Json, SummaryPreset, without_paths
from unbottle.experiments.results import Column, Experiment, Results, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import run_experiment
from unbottle.experiments.summary_tables import SUMMARIZATION, measure_summaries
from unbottle.experiments.workspace import SummaryWorkspace
from unbottle.head.projection import form_for
from unbottle.train import SummarizeSettings
from unbottle.train.presets import TINY

BASELINE = "softmax"
SUMMARY_METHODS = (PLAIN, BASELINE, "copynet", "ps", "softmax+ce", "softmax+cepr:20")
MAX_GENERATED = 100  # summaries are generated for the first held-out documents
ROWS = SummarizeSettings(
    output="", batch=8, lr=3e-4, eps=TINY, warmup_steps=10, epochs=1.0, source_length=256, target_length=64,
    report_to=(), save_every=50, keep=1,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SummaryComparison(SummaryPreset):
    """All rows start from one pretrained model, and see the same pairs in the same order, once."""

    name: str = "compare"
    about: str = "Output layers on a model and pairs of one's own."
    pairs: int  # to train on
    held_out: int  # pairs whose reference summaries have a loss

    @classmethod
    def create(
        cls,
        model: str,
        data: str,
        *,
        train: str,
        pairs: int,
        test_pairs: int,
        length: int,
        batch: int | None = None,
        lrs: Sequence[float] | None = None,
    ) -> SummaryComparison:
        """The comparison that options of the command describe."""
        if lrs is not None and len(lrs) > 1:
            raise ValueError(f"--lr {', '.join(f'{rate:g}' for rate in lrs)}: give one learning rate with --pairs.")
        title, lr = Path(model).name, ROWS.lr if lrs is None else lrs[0]
        rows = replace(ROWS, train=train, source_length=length, batch=batch or ROWS.batch, lr=lr)
        return cls(
            data=data,
            backbones={title: Backbone(pretrained=model)},
            rows=rows,
            pairs=pairs,
            table=(title,),
            curve=(title,),
            decoding=Decoding(max_length=rows.target_length, source_length=rows.source_length, batch=rows.batch),
            held_out=test_pairs,
            test_pairs=min(MAX_GENERATED, test_pairs),
        )

    @property
    def form(self) -> str:
        return form_for(self.rows.train)

    def to_dict(self) -> Json:
        """The model and the data by their names, without paths of this machine."""
        named = replace(self, data=Path(self.data).name, backbones=without_paths(self.backbones))
        return super(SummaryComparison, named).to_dict()


def select_summary_rows(names: Sequence[str]) -> list[str]:
    """The rows that are named, or else SUMMARY_METHODS; each may have one learning rate."""
    rows = select_rows(names, SUMMARY_METHODS, BASELINE)
    for row in rows:
        if len(RowSpec.parse(row).candidates) > 1:
            raise ValueError(f"{row!r}: give one learning rate with --pairs.")
    return rows


class SummaryCompareWorkspace(SummaryWorkspace):
    """One pretrained model, one set of pairs."""

    preset: SummaryComparison
    keep_models = False

    @cached_property
    def settings(self) -> Json:
        return super().settings | {"models": model_hashes(self)}

    @cached_property
    def corpus(self) -> PairCorpus:
        """As many pairs as are asked for."""
        corpus = super().corpus
        return PairCorpus(
            train=corpus.train.select(range(min(self.preset.pairs, len(corpus.train)))),
            test=corpus.test.select(range(min(self.preset.held_out, len(corpus.test)))),
        )

    def trained_model(self, method: str, seed: int, size: str) -> Path:
        """The folder of a trained row, or that of the untrained backbone."""
        if RowSpec.parse(method).method is None:
            return Path(self.base(size))
        return self.train_row(method, seed, size, data=lambda: self.corpus.train, settings=self.preset.rows)

    def predictions_file(self, method: str, seed: int, size: str) -> Path:
        return self.folder / "written" / size / f"{RowSpec.parse(method).folder_name}-{seed}.jsonl"


def measure(workspace: SummaryCompareWorkspace, row: RowKey) -> Json:
    """Train and measure a row. The trained model is not kept."""
    metrics = measure_summaries(workspace, row)
    spec = RowSpec.parse(row.method)
    if spec.method is not None and not workspace.keep_models:
        shutil.rmtree(workspace.row_folder(spec, row.seed, row.size, "rows"))
    return metrics


def compare_summaries(
    workspace: SummaryCompareWorkspace, output: Path, methods: Sequence[str], *, seeds: Sequence[int], command: str
) -> Results:
    """Run all rows, and return the results, which are in a folder below `output`."""
    preset = workspace.preset
    size, data, train = next(iter(preset.backbones)), Path(workspace.data).name, preset.rows.train
    difference_columns = (
        Column("to Softmax", "difference", 2, "model"),
        Column("95 %", "interval", 2, "model"),
        Column("better", "wins", 2, "model"),
    )
    experiment: Experiment = replace(
        SUMMARIZATION,
        name=f"{data}-{train}",
        title=f"Summaries of {data} by {size} after {preset.pairs:,} pairs, learning rate {preset.rows.lr:g}",
        methods=tuple(str(RowSpec.parse(method)) for method in methods),
        measure=measure,
        columns=(*SUMMARIZATION.columns[:4], *difference_columns, *SUMMARIZATION.columns[4:]),
        paper={},
        workspace=SummaryCompareWorkspace,
        finish=lambda workspace, rows: differences_to(BASELINE, rows),
        note=f"{SUMMARIZATION.note} To Softmax: difference of perplexities, and its 95 % bootstrap interval over the "
        "pairs of the test part (paired).",
        command=command,
    )
    return run_experiment(experiment, workspace, output / experiment.name, experiment.rows(preset, seeds))
