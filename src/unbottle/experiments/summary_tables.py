"""The paper's experiments on summarization: the tables of T5 and BART, and loss against size (fig:t5_loss_size)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.data.sources import read_rows
from unbottle.eval import Documents, Examples, score_examples, summary_loss, write_summaries
from unbottle.eval.metrics.metric import EntailmentOptions, MauveOptions, SummaryScoreOptions
from unbottle.eval.metrics.model_based import label_of, load_classifier, load_mauve, mauve_features
from unbottle.experiments.figures import MetricPanels, plot_size_curve
from unbottle.experiments.language_tables import forward_times, num_parameters
from unbottle.experiments.paper import SUMMARIES
from unbottle.experiments.presets import Json, without_path
from unbottle.experiments.results import INTERVALS, MODELS, TAGGER, Column, Experiment, RowKey
from unbottle.experiments.workspace import EvalWindows, SummaryWorkspace

ROWS = tuple(SUMMARIES["samsum"]["T5-Small"])
CURVE = tuple(SUMMARIES["cnn_dailymail"]["T5-Base"])  # what the paper has for both sizes
PADDED = 128  # the paper's labels are padded to so many tokens
MAUVE, FACTCC = "mauve", "factcc"  # metrics that load a model
MODEL, REFERENCE, SOURCE = "model", "reference", "source"  # parts of the table


def measure_summaries(
    workspace: SummaryWorkspace, row: RowKey, *, options: SummaryScoreOptions | None = None, more: Sequence[str] = ()
) -> Json:
    """Train a row, then measure the loss of the reference summaries, the time of a forward pass, and the scores of
    generated summaries: those of the preset, and `more`."""
    options = options or SummaryScoreOptions()
    model, tokenizer = workspace.load(workspace.trained_model(*row)), workspace.tokenizer_of(row.size)
    metrics = loss_metrics(workspace, model, tokenizer) | time_metrics(workspace, model, row.size)
    rows = [*islice(workspace.corpus.test, workspace.preset.test_pairs)]
    decoding, path = replace(workspace.preset.decoding, seed=row.seed), workspace.predictions_file(*row)
    documents = Documents.of_list(rows, "document")
    write_summaries(model, tokenizer, documents, decoding, path, report=workspace.labelled("generating"))
    scores = score_examples(
        Examples.of(read_rows(path), needed=("id", "document", "summary")),
        metrics=(*workspace.preset.metrics, *more),
        tagger=workspace.name_tagger,
        options=options,
        report=workspace.labelled("scoring"),
    )
    scored = scores.metrics.items()
    return metrics | {
        **{name: score.value for name, score in scored if score.value is not None},
        INTERVALS: {name: [score.low, score.high] for name, score in scored if score.low is not None},
        "not measured": {name: score.why for name, score in scored if score.value is None},
        "summaries": len(rows),
        TAGGER: scores.tagger,
        MODELS: {name: model for name, model in models_of(options).items() if name in scores.metrics},
    }


def models_of(options: SummaryScoreOptions) -> dict[str, str]:
    """The models that metrics load: names on the hub, or of folders, where that of `runs/x/model` is x."""
    paths = {MAUVE: Path(options.mauve.model), FACTCC: Path(options.entailment.model)}
    return {
        metric: path.parent.name if path.is_dir() and path.name == "model" else str(without_path(str(path)))
        for metric, path in paths.items()
    }


def with_models(experiment: Experiment, *, mauve: str | None, factcc: str | None) -> Experiment:
    """The experiment with MAUVE, FactCC or both, computed with these models; rows that lack them are measured again.

    A model that cannot be used raises ValueError here, before anything is trained.
    """
    options, asked = SummaryScoreOptions(), {MAUVE: mauve, FACTCC: factcc}
    if mauve is not None:
        options = replace(options, mauve=MauveOptions(model=mauve))
        load_mauve()
        mauve_features(["Any text."], options.mauve)
    if factcc is not None:
        options = replace(options, entailment=EntailmentOptions(model=factcc))
        label_of(load_classifier(factcc)[0].config, options.entailment)
    models = {name: model for name, model in models_of(options).items() if asked[name] is not None}
    measure = partial(measure_summaries, options=options, more=tuple(models))
    return replace(experiment, measure=measure, models={**experiment.models, **models})


def measure_loss(workspace: SummaryWorkspace, row: RowKey) -> Json:
    """Train a row, then measure the loss alone."""
    return loss_metrics(workspace, workspace.load(workspace.trained_model(*row)), workspace.tokenizer_of(row.size))


def loss_metrics(
    workspace: SummaryWorkspace, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, part: str = "test"
) -> Json:
    """Loss and perplexity of all reference summaries of a part."""
    pairs = workspace.tokenized_pairs(getattr(workspace.corpus, part), model, tokenizer)
    result = summary_loss(
        model, cast(EvalWindows, pairs), batch=workspace.preset.rows.batch, report=workspace.labelled("loss")
    )
    return {
        "size": num_parameters(model) / 1e6,
        "loss": result.loss,
        "perplexity": result.perplexity,
        "padded loss": result.padded(PADDED),
        "tokens": result.tokens,
        **{name: group.perplexity for name, group in result.groups.items() if group.perplexity is not None},
        "windows": [list(pair) for pair in result.pairs],
    }


def time_metrics(workspace: SummaryWorkspace, model: PreTrainedModel, size: str) -> Json:
    """CPU time of a forward pass over a batch: milliseconds per pair, and the ratio to the plain backbone."""
    plain = workspace.load(workspace.base(size))
    test = workspace.corpus.test.select(range(min(workspace.preset.rows.batch, len(workspace.corpus.test))))
    batch = [*workspace.tokenized_pairs(test, plain, workspace.tokenizer_of(size))]
    sources = [pair["input_ids"] for pair in batch]
    inputs = {
        "input_ids": pad_sequence(sources, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(ids) for ids in sources], batch_first=True),
        "decoder_input_ids": pad_sequence([pair["labels"] for pair in batch], batch_first=True),
    }
    times = forward_times({"model": model, "plain": plain}, inputs)
    return {"time": times["model"] / times["plain"], "milliseconds": 1000 * times["model"] / len(batch)}


SUMMARIZATION = Experiment(
    name="summarization",
    title="Summaries by T5 and BART (tb:summarization, tb:summarization_other_news, tb:summarization_other_types)",
    methods=ROWS,
    measure=measure_summaries,
    workspace=SummaryWorkspace,
    sizes=lambda preset: preset.table,
    columns=(
        Column("Size", "size", 2, MODEL),
        Column("Time", "time", 2, MODEL),
        Column("Loss", "padded loss", 3, MODEL),
        Column("per token", "loss", 3, MODEL),
        Column("Perplexity", "perplexity", 2, MODEL),
        Column("in the document", "document", 2, MODEL),
        Column("elsewhere", "elsewhere", 2, MODEL),
        Column("R1", "r1", 2, REFERENCE),
        Column("R2", "r2", 2, REFERENCE),
        Column("RL", "rl", 2, REFERENCE),
        Column("R1P", "r1p", 3, REFERENCE),
        Column("P Ratio", "p-ratio", 3, REFERENCE),
        Column("CIDEr", "cider", 3, REFERENCE),
        Column("NIST", "nist", 3, REFERENCE),
        Column("MAUVE", MAUVE, 3, REFERENCE),
        Column("FactCC", FACTCC, 3, SOURCE),
        Column("Support", "support", 3, SOURCE),
        Column("Copy rate", "copy-rate", 3, SOURCE),
        Column("Copy density", "copy-density", 2, SOURCE),
        *(Column(f"Novel {n}", f"novel-{n}", 3, SOURCE) for n in (1, 2, 3, 4)),
        *(Column(f"Repeated {n}", f"repetition-{n}", 3, SOURCE) for n in (1, 2, 3, 4)),
        Column("Repeated sentences", "repeated-sentences", 3, SOURCE),
        Column("Length", "length", 1, SOURCE),
    ),
    paper=SUMMARIES,
    plot=MetricPanels(
        "Summaries (tb:summarization, tb:summarization_other_news, tb:summarization_other_types)",
        {
            "loss": ("padded loss", ("Loss",)),
            **{name: (name.lower(), (name,)) for name in ("R1", "R2", "CIDEr", "NIST")},
            "R1P": ("r1p", ("R1P",)),
            "P Ratio": ("p-ratio", ("P Ratio",)),
            "FactCC": (FACTCC, ("FactCC",)),
            "MAUVE": (MAUVE, ("MAUVE",)),
        },
        baseline="softmax",
        plain=("R1P", "P Ratio", "FactCC", "MAUVE"),
    ),
    tagged=True,
    note="Loss: the paper's, per position of summaries padded to 128 tokens; the padding is taken as known (the "
    "authors train on it, we do not). Per token, and perplexity: of the tokens of all reference summaries of the test "
    "part, and of those that are in the document or not. Time: CPU time of a forward pass "
    "over a batch as a ratio to the plain backbone, measured in turns; the paper's is milliseconds per sample. "
    "All other columns: of summaries generated with top-k sampling, K = 10. R1, R2, RL are percent; "
    "R1P is a share. Support: share of names and numbers that are in the document. Novel n: n-grams "
    "that are not in the document. Repeated n: n-grams that the summary has already used. An empty cell was not "
    "measured: results.json says why, and has the interval of every number.",
)
T5_SIZE_CURVE = Experiment(
    name="t5-size-curve",
    title="Loss of T5 against size (fig:t5_loss_size)",
    methods=CURVE,
    measure=measure_loss,
    workspace=SummaryWorkspace,
    sizes=lambda preset: preset.curve,
    columns=(Column("Size", "size"), Column("Loss", "padded loss", 3), Column("per token", "loss", 3)),
    paper_columns=("Size", "Loss"),
    paper=SUMMARIES,
    plot=partial(
        plot_size_curve,
        title="T5: loss against size (fig:t5_loss_size)",
        label=f"loss per position, padded to {PADDED}",
        key="padded loss",
    ),
    note="The paper's figure is of CNN/DM; the paper's columns here are from its tables for this data set.",
)
