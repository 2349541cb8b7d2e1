"""Summaries: the tables of T5 and BART (tb:summarization and two more), and loss against size (fig:t5_loss_size)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from unbottle.data.sources import read_rows
from unbottle.eval import Documents, Examples, score_examples, summary_loss, tagger, write_summaries
from unbottle.experiments.language_tables import curve
from unbottle.experiments.paper_summaries import SUMMARIES, SUMMARY_COLUMNS
from unbottle.experiments.results import Column, Experiment, Row
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.runner import cpu_medians
from unbottle.experiments.workspace import SummaryLab

ROWS = tuple(SUMMARIES["samsum"]["T5-Small"])
CURVE = tuple(SUMMARIES["cnn_dailymail"]["T5-Base"])  # what the paper has for both sizes
MODEL, REFERENCE, SOURCE = "model", "reference", "source"  # parts of the table


def measure(lab: SummaryLab, method: str, seed: int, size: str) -> dict[str, Any]:
    """Train; then the loss of the true summaries, the time of a pass, and the scores of summaries that it writes."""
    folder = lab.trained(method, seed, size=size)
    model, tokenizer = lab.load(folder), lab.tokenizer_of(size)
    found = loss_of(lab, model, tokenizer, named(lab, method, size, "loss")) | time_of(lab, model, size)
    rows = [*islice(lab.corpus.test, lab.preset.test_pairs)]
    decoding, path = replace(lab.preset.decoding, seed=seed), lab.place(method, seed, size=size)
    report = named(lab, method, size, "writing")
    write_summaries(model, tokenizer, Documents.of_list(rows, "document"), decoding, path, report=report)
    scores = score_examples(
        Examples.of(read_rows(path), needed=("id", "document", "summary")),
        metrics=lab.preset.metrics,
        tagger=tagger(),
        report=named(lab, method, size, "scoring"),
    )
    metrics = scores.metrics.items()
    return found | {
        **{name: score.value for name, score in metrics if score.value is not None},
        "intervals": {name: [score.low, score.high] for name, score in metrics if score.low is not None},
        "not measured": {name: score.why for name, score in metrics if score.value is None},
        "summaries": len(rows),
        "tagger": scores.tagger,
    }


def measure_loss(lab: SummaryLab, method: str, seed: int, size: str) -> dict[str, Any]:
    """Train; then the loss alone."""
    model = lab.load(lab.trained(method, seed, size=size))
    return loss_of(lab, model, lab.tokenizer_of(size), named(lab, method, size, "loss"))


def loss_of(lab: SummaryLab, model: Any, tokenizer: Any, report: Any) -> dict[str, Any]:
    """Of all true summaries of the test."""
    pairs = lab.pairs(lab.corpus.test, model, tokenizer)
    found = summary_loss(model, pairs, batch=lab.preset.rows.batch, report=report)
    return {
        "size": sum(parameter.numel() for parameter in model.parameters()) / 1e6,
        "loss": found.loss,
        "perplexity": found.perplexity,
        "tokens": found.tokens,
        **{name: group.perplexity for name, group in found.groups.items() if group.perplexity is not None},
        "windows": [list(pair) for pair in found.pairs],
    }


def time_of(lab: SummaryLab, model: Any, size: str) -> dict[str, Any]:
    """CPU time of a pass over a batch for each pair of it, and as a ratio to the plain backbone's, in turns."""
    plain = lab.load(lab.base(size))
    first = range(min(lab.preset.rows.batch, len(lab.corpus.test)))
    batch = [*lab.pairs(lab.corpus.test.select(first), plain, lab.tokenizer_of(size))]
    ids = pad_sequence([pair["input_ids"] for pair in batch], batch_first=True)
    mask = pad_sequence([torch.ones_like(pair["input_ids"]) for pair in batch], batch_first=True)
    written = pad_sequence([pair["labels"] for pair in batch], batch_first=True)
    given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": written}
    given = {name: value.to(plain.device) for name, value in given.items()}

    def forward(model: Any) -> None:
        with torch.no_grad():
            model(**given, use_cache=False)

    medians = cpu_medians({"model": partial(forward, model), "plain": partial(forward, plain)})
    return {"time": medians["model"] / medians["plain"], "milliseconds": 1000 * medians["model"] / len(batch)}


def named(lab: SummaryLab, method: str, size: str, what: str) -> Any:
    title = f"{size}, {Variant.parse(method).title}"
    return lambda done, total, text: lab.report(done, total, f"{title}: {what}, {text}")


def dots(rows: Sequence[Row], path: Path) -> None:
    from unbottle.report.plots import dots as draw
    from unbottle.tables import Estimate

    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(f"{row.size}, {Variant.parse(row.method).title}", []).append(row.found["perplexity"])
    draw({name: Estimate.of(each) for name, each in values.items()}, path, label="perplexity of the true summaries")


def of_loss(paper: Mapping[str, Mapping[str, tuple[float, ...]]]) -> dict[str, dict[str, tuple[float, ...]]]:
    """Size and loss alone."""
    places = [SUMMARY_COLUMNS.index(name) for name in ("Size", "Loss")]
    return {
        size: {method: tuple(numbers[place] for place in places) for method, numbers in rows.items()}
        for size, rows in paper.items()
    }


SUMMARIZATION = Experiment(
    name="summarization",
    title="Summaries by T5 and BART (tb:summarization, tb:summarization_other_news, tb:summarization_other_types)",
    methods=ROWS,
    measure=measure,
    lab=SummaryLab,
    sizes=lambda preset: preset.table,
    columns=(
        Column("Size", "size", 2, MODEL),
        Column("Time", "time", 2, MODEL),
        Column("Loss", "loss", 3, MODEL),
        Column("Perplexity", "perplexity", 2, MODEL),
        Column("in the document", "document", 2, MODEL),
        Column("elsewhere", "elsewhere", 2, MODEL),
        Column("R1", "r1", 2, REFERENCE),
        Column("R2", "r2", 2, REFERENCE),
        Column("RL", "rl", 2, REFERENCE),
        Column("R1P", "r1p", 2, REFERENCE),
        Column("P Ratio", "p-ratio", 3, REFERENCE),
        Column("CIDEr", "cider", 3, REFERENCE),
        Column("NIST", "nist", 3, REFERENCE),
        Column("MAUVE", "mauve", 3, REFERENCE),
        Column("FactCC", "factcc", 3, SOURCE),
        Column("Support", "support", 3, SOURCE),
        Column("Copy rate", "copy-rate", 3, SOURCE),
        Column("Copy density", "copy-density", 2, SOURCE),
        *(Column(f"Novel {n}", f"novel-{n}", 3, SOURCE) for n in (1, 2, 3, 4)),
        *(Column(f"Repeated {n}", f"repetition-{n}", 3, SOURCE) for n in (1, 2, 3, 4)),
        Column("Repeated sentences", "repeated-sentences", 3, SOURCE),
        Column("Length", "length", 1, SOURCE),
    ),
    paper_columns=SUMMARY_COLUMNS,
    paper_by_data=SUMMARIES,
    plot=dots,
    note="Loss and perplexity: of the tokens of all true summaries of the test, and of those among them that the "
    "document has or has not. The paper does not say what its loss is divided by. Time: CPU time of a pass over a "
    "batch as a ratio to the plain backbone's, in turns; the paper's is milliseconds of a sample. All other columns: "
    "of summaries that were written with top-k sampling, K = 10. R1, R2, RL, R1P are percent; the paper's R1P is a "
    "share. Support: share of names and numbers that the document has. Novel n, repeated n: n-grams that the document "
    "has not, that the summary has said before. An empty cell was not measured: results.json says why, and has "
    "the interval of every number.",
)
T5_SIZE_CURVE = Experiment(
    name="t5-size-curve",
    title="Loss of T5 against size (fig:t5_loss_size)",
    methods=CURVE,
    measure=measure_loss,
    lab=SummaryLab,
    sizes=lambda preset: preset.curve,
    columns=(Column("Size", "size"), Column("Loss", "loss", 3)),
    paper_columns=("Size", "Loss"),
    paper_by_data={data: of_loss(paper) for data, paper in SUMMARIES.items()},
    plot=curve,
    note="The paper's figure is of CNN/DM; beside it stand the losses of its tables for the data set at hand.",
)
