"""Predictions out of a file, by themselves or joined with the data they were made from.

Summaries that a model writes on the spot, for `unbottle eval summaries --model`.

unbottle eval summaries: predictions beside references and sources, with intervals, and two runs compared.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbottle.cli.options import DryRun, OutputFolder, check_file, check_model
from unbottle.cli.output import show
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.generation import Decoding
    from unbottle.eval.summary_files import Columns, Examples
    from unbottle.eval.summary_scores import Comparison, Options, Scores


@dataclass(frozen=True, kw_only=True)
class Files:
    """Which files, and how their columns are called."""

    predictions: Path
    data: Path | None
    against: Path | None
    columns: Columns

    def to_dict(self) -> dict[str, Any]:
        paths = {name: path and str(path) for name, path in vars(self).items() if name != "columns"}
        return {**paths, "columns": vars(self.columns)}

    def examples(self, path: Path, needed: Collection[str]) -> tuple[Examples, list[str]]:
        """The examples of a file of predictions, and what is to be said about them."""
        from unbottle.data.sources import read_rows
        from unbottle.eval.summary_files import Examples

        rows, notes = read_rows(path), list[str]()
        if self.data is not None:
            rows, notes = self._joined(rows, path)
        by_id = ["id"] if self.against is not None else []
        try:
            return Examples.of(rows, columns=self.columns, needed=[*by_id, *sorted(needed)]), notes
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _joined(self, rows: list[dict[str, Any]], path: Path) -> tuple[list[dict[str, Any]], list[str]]:
        """Each prediction with the row of the data that has its id."""
        from unbottle.data.sources import read_rows
        from unbottle.eval.summary_files import refuse_duplicates

        assert self.data is not None
        data, key = read_rows(self.data), self.columns.id
        for where, those in ((path, rows), (self.data, data)):
            for place, row in enumerate(those, start=1):
                if key not in row:
                    raise ValueError(f"{where}: row {place}: no column {key!r}. There are: {', '.join(row)}.")
        refuse_duplicates((str(row[key]) for row in data), str(self.data))
        by_id = {str(row[key]): row for row in data}
        unknown = [str(row[key]) for row in rows if str(row[key]) not in by_id]
        if unknown:
            raise ValueError(
                f"{path}: {len(unknown)} of {len(rows)} predictions have an id that is not in {self.data}: "
                f"{', '.join(unknown[:3])}."
            )
        found = [{**row, **by_id[str(row[key])], **self._prediction(row)} for row in rows]
        left = len(by_id) - len({str(row[key]) for row in rows})
        notes = [f"{left} of {len(data)} rows of {self.data} have no prediction in {path} and are left out."]
        return found, notes if left else []

    def _prediction(self, row: dict[str, Any]) -> dict[str, Any]:
        """The prediction is the file's, even if the data has a column of that name."""
        name = self.columns.prediction
        return {name: row[name]} if name in row else {}


NAME = "predictions.jsonl"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A file of documents, how its columns are called, and which of them the metrics need."""

    path: Path
    columns: Columns
    needed: Collection[str]

    def read(self) -> list[dict[str, Any]]:
        """What would be wrong with them later is said now, before a model has worked for hours."""
        from unbottle.data.sources import read_rows
        from unbottle.eval.summary_files import Examples

        rows, needed = read_rows(self.path), sorted({"document", *self.needed})
        try:
            Examples.of([row | {self.columns.prediction: ""} for row in rows], columns=self.columns, needed=needed)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
        return rows


def written_summaries(model: str, rows: Rows, decoding: Decoding, folder: Path) -> None:
    """NAME in the folder: the rows with a prediction each. A file that is not whole is continued."""
    from unbottle.cli.generate import loaded_seq2seq
    from unbottle.cli.options import Dropped
    from unbottle.eval.summary_files import Documents, write_summaries
    from unbottle.progress import one_line_warnings, progress

    documents = Documents.of_list(rows.read(), rows.columns.document)
    made = Dropped("document", "summary", "end")
    with one_line_warnings():
        network, tokenizer = loaded_seq2seq(model)
        with progress() as report:
            try:
                write_summaries(
                    network, tokenizer, documents, decoding, folder / NAME,
                    prediction=rows.columns.prediction, report=report, watch=made.watch,
                )  # fmt: skip
            finally:
                made.tell()


EXAMPLES = """
unbottle eval summaries --predictions runs/cepr/predictions.jsonl --output runs/cepr/scores
unbottle eval summaries --model runs/cepr/model --data test.jsonl --text-column dialogue --output runs/cepr/scores
unbottle eval summaries --predictions cepr.jsonl --against softmax.jsonl --metrics r1,r2,rl,support
unbottle eval summaries --predictions cepr.jsonl --data samsum/test.jsonl --text-column dialogue
unbottle eval summaries --predictions cepr.jsonl --metrics all --entailment factcc-samsum --mauve-model gpt2
"""
NAMES = "r1, r2, rl, r1p, p-ratio, cider, nist, mauve, factcc, support, copy-rate, novel-1..4, repetition, length, all"
FIRST, SECOND = "predictions", "against"
DIGITS = 3


def eval_summaries(
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="jsonl (or csv, parquet) with id, document, summary and prediction."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Instead: this model writes them, of --data, into --output."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Documents and summaries; joined with --predictions by id."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Predictions of another run, to be compared by id.")
    ] = None,
    metrics: Annotated[
        str, typer.Option(metavar="NAME,NAME", help=f"{NAMES}. [all but mauve and factcc, which need a model]")
    ] = "",
    tagger: Annotated[
        str, typer.Option(metavar="TAGGER", help="Of proper nouns: auto, spacy, spacy:PATH, nltk or rules.")
    ] = "auto",
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The column of documents.")] = "document",
    summary_column: Annotated[str, typer.Option(metavar="NAME", help="The column of true summaries.")] = "summary",
    prediction_column: Annotated[str, typer.Option(metavar="NAME", help="The column of predictions.")] = "prediction",
    id_column: Annotated[str, typer.Option(metavar="NAME", help="The column of ids.")] = "id",
    entailment: Annotated[
        str, typer.Option(metavar="MODEL", help="For factcc: a classifier of (source, sentence), hub or folder.")
    ] = "manueldeprada/FactCC",
    entailment_label: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Its label that means supported. [CORRECT, ENTAILMENT or the like]"),
    ] = None,
    mauve_model: Annotated[
        str, typer.Option(metavar="MODEL", help="For mauve: whose hidden states are the features.")
    ] = "gpt2-large",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="How --model writes; repeatable. See --dry-run. [the paper's]"),
    ] = None,
    rounds: Annotated[int, typer.Option(metavar="N", help="How often examples are drawn for an interval.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the drawing.")] = 0,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Score summaries that a model wrote, and say how sure each number is.

    r1, r2, rl are ROUGE F1 in percent with stemmer; r1p the same for proper nouns; p-ratio those written to those
    in the references. support is the share of names and numbers that the source has: it finds what is invented, not
    what is true but said of someone else. copy-rate is the share of words in stretches copied from the source,
    copy-density the mean length of these stretches. A metric that can not run says why. Two runs are compared by
    approximate randomisation (two-sided p values, not corrected for the number of metrics). With --model, what was
    written is kept in DIR/predictions.jsonl, and a run that was killed goes on from there.
    """
    if (predictions is None) == (model is None):
        raise ValueError("give --predictions, a file, or --model, which writes them; one of them.")
    if not dry_run:
        check_model(model)
        for file in (predictions, data, against):
            check_file(file)
    from unbottle.cli.output import config_of, prepare, write_run
    from unbottle.cli.train_options import changed, pairs_of
    from unbottle.eval.bootstrap import Drawing
    from unbottle.eval.generation import Decoding
    from unbottle.eval.metrics.entailment import Entailment
    from unbottle.eval.metrics.mauve import Mauve
    from unbottle.eval.summary_files import Columns
    from unbottle.eval.summary_scores import DEFAULT, Options, known

    names = known([name.strip() for name in metrics.split(",") if name.strip()] or DEFAULT)
    columns = Columns(id=id_column, document=text_column, summary=summary_column, prediction=prediction_column)
    decoding = changed(Decoding(), pairs_of(setting or []))
    joined = data if model is None or against is not None else None  # what a model writes has all of its row
    files = Files(predictions=predictions or (output or Path()) / NAME, data=joined, against=against, columns=columns)
    options = Options(
        entailment=Entailment(model=entailment, label=entailment_label),
        mauve=Mauve(model=mauve_model),
        drawing=Drawing(rounds=rounds, seed=seed),
    )
    writing = {} if model is None else {"model": model, "data": data and str(data), "decoding": decoding.to_dict()}
    settings = {**files.to_dict(), **writing, "metrics": list(names), "tagger": tagger}
    config = config_of("eval summaries", {**settings, **{name: vars(part) for name, part in vars(options).items()}})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    if model is not None:
        if data is None or output is None:
            raise ValueError(
                "--model needs --data, the documents, and --output, a folder for what it writes about them."
            )
        prepare(output)
        written_summaries(model, Rows(path=data, columns=columns, needed=needs(names)), decoding, output)
    elif setting:
        raise ValueError("--set is for --model: predictions of a file are written already.")
    runs, notes = read(files, names)
    prepare(output)
    scores, comparison = evaluate(runs, names, tagger, options)
    show(document(scores, comparison, notes))
    found: dict[str, Any] = {"runs": {name: run.to_dict() for name, run in scores.items()}, "notes": notes}
    write_run(output, config, {**found, "comparison": None if comparison is None else comparison.to_dict()})


def read(files: Files, names: Sequence[str]) -> tuple[dict[str, Examples], list[str]]:
    """The runs, on the examples that they have in common; and what was left out."""
    from unbottle.eval.summary_files import in_common

    needed = needs(names)
    first, notes = files.examples(files.predictions, needed)
    if files.against is None:
        return {FIRST: first}, notes
    second, more = files.examples(files.against, needed)
    one, other = in_common(first, second)
    for path, run in ((files.predictions, first), (files.against, second)):
        if left := len(run.ids) - len(one.ids):
            more.append(f"{left} of {len(run.ids)} examples of {path} are not in the other run and left out.")
    return {FIRST: one, SECOND: other}, [*notes, *more]


def needs(names: Sequence[str]) -> set[str]:
    """What the metrics are about, by our names for the columns."""
    from unbottle.eval.summary_scores import METRICS

    return {need for name in names for need in METRICS[name].needs}


def evaluate(
    runs: dict[str, Examples], names: Sequence[str], tagger: str, options: Options
) -> tuple[dict[str, Scores], Comparison | None]:
    from unbottle.eval.proper_nouns import tagger as tagger_of
    from unbottle.eval.summary_scores import compare_summaries, score_examples

    tag, scores = tagger_of(tagger), {}
    for name, examples in runs.items():
        with progress() as report:
            scores[name] = score_examples(examples, metrics=names, tagger=tag, options=options, report=report)
    return scores, compare_summaries(scores[FIRST], scores[SECOND]) if SECOND in scores else None


def document(scores: dict[str, Scores], comparison: Comparison | None, notes: Iterable[str]) -> str:
    """A row for each metric, with intervals; then what could not run, and whose numbers they are."""
    first = scores[FIRST]
    title = ["metric", FIRST, "95 %", "examples"]
    rows = []
    for name, score in first.metrics.items():
        if score.value is None:
            continue
        row = [name, number(score.value, DIGITS), ends(score.low, score.high), str(score.counted)]
        if comparison is not None:
            both = comparison.metrics[name]
            row[3:] = [number(both.second, DIGITS), number(both.difference, DIGITS), ends(both.low, both.high)]
            row.append(number(both.p, 4))
        rows.append(row)
    parts = [f"{len(first.ids)} summaries."]
    if comparison is not None:
        title[3:] = [SECOND, "difference", "95 %", "p"]
        parts = [f"{len(first.ids)} summaries of each run. p: {comparison.to_dict()['test']}; not corrected."]
    if rows:
        parts.insert(0, Table(title, rows).markdown())
    parts += notes
    said = remarks(scores)
    parts += ["\n".join(said)] if said else []
    return "\n\n".join([*parts, codes(first)])


def remarks(scores: dict[str, Scores]) -> list[str]:
    """What could not be measured, and what a reader should know; what is the same of both runs once."""
    by_text: dict[str, list[str]] = {}
    for which, run in scores.items():
        for name, score in run.metrics.items():
            text = f"can not be measured: {score.why}" if score.why else score.note
            if text:
                by_text.setdefault(f"{name}: {text.removesuffix('.')}.", []).append(which)
    return [text if len(runs) == len(scores) else f"{', '.join(runs)}, {text}" for text, runs in by_text.items()]


def ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.{DIGITS}f} to {high:.{DIGITS}f}"


def codes(run: Scores) -> str:
    """Whose code each number is, numbers of the same code together."""
    by_code: dict[str, list[str]] = {}
    for name, score in run.metrics.items():
        if score.implementation:
            by_code.setdefault(score.implementation, []).append(name)
    return "\n".join(f"{', '.join(members)}: {code}." for code, members in by_code.items())
