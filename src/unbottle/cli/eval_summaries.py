"""unbottle eval summaries: score summaries against references and sources, and compare two runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbottle.cli.options import DryRun, OutputFolder, TaggerOption, check_file, check_model, key_values, option
from unbottle.cli.output import by_implementation, config_of, prepare, show, write_run
from unbottle.data.sources import DataRow, read_rows
from unbottle.progress import one_line_warnings, progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.generation import Decoding, Documents
    from unbottle.eval.metrics.metric import SummaryScoreOptions
    from unbottle.eval.summary_scores import Columns, Examples, MetricComparison, SummaryScores

NAME = "predictions.jsonl"
EXAMPLES = """
unbottle eval summaries --predictions runs/cepr/predictions.jsonl --output runs/cepr/scores
unbottle eval summaries --model runs/cepr/model --data test.jsonl --text-column dialogue --output runs/cepr/scores
unbottle eval summaries --predictions cepr.jsonl --against softmax.jsonl --metrics r1,r2,rl,support
unbottle eval summaries --predictions cepr.jsonl --data samsum/test.jsonl --text-column dialogue
unbottle eval summaries --predictions cepr.jsonl --metrics all --entailment factcc-samsum --mauve-model gpt2
"""
FIRST, SECOND = "predictions", "against"
DIGITS = 3


def eval_summaries(
    predictions: Annotated[
        Path | None, option("FILE", "jsonl (or csv, parquet) with id, document, summary and prediction.")
    ] = None,
    model: Annotated[str | None, option("MODEL", "Instead: a model that summarizes --data into --output.")] = None,
    data: Annotated[Path | None, option("FILE", "Documents and summaries; joined with --predictions by id.")] = None,
    against: Annotated[Path | None, option("FILE", "Predictions of another run to compare with, by id.")] = None,
    metrics: Annotated[
        str, option("NAME,NAME", "Metrics, or all; an unknown name lists them. [all but heavy ones]")
    ] = "",
    tagger: TaggerOption = "auto",
    text_column: Annotated[str, option("NAME", "Column of documents.")] = "document",
    summary_column: Annotated[str, option("NAME", "Column of reference summaries.")] = "summary",
    prediction_column: Annotated[str, option("NAME", "Column of predictions.")] = "prediction",
    id_column: Annotated[str, option("NAME", "Column of ids.")] = "id",
    entailment: Annotated[
        str, option("MODEL", "For factcc: a classifier of (source, sentence), hub or folder.")
    ] = "manueldeprada/FactCC",
    entailment_label: Annotated[
        str | None, option("LABEL", "Its label for a supported sentence. [CORRECT, ENTAILMENT or the like]")
    ] = None,
    mauve_model: Annotated[
        str, option("MODEL", "For mauve: the model whose hidden states are the features.")
    ] = "gpt2-large",
    setting: Annotated[
        list[str] | None, option("KEY=VALUE", "Decoding setting of --model (see --dry-run); repeatable.", "--set")
    ] = None,
    rounds: Annotated[int, option("N", "Number of bootstrap rounds.")] = 1000,
    seed: Annotated[int, option("N", "Random seed for the bootstrap.")] = 0,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Score summaries, with confidence intervals, and compare two runs.

    r1, r2, rl are ROUGE F1 in percent with stemmer; r1p the same for proper nouns; p-ratio is the number of proper
    nouns in the summaries divided by that in the references. support is the share of names and numbers that the source
    has: it finds invented ones, not true ones said of someone else. copy-rate is the share of words in fragments copied
    from the source, copy-density the mean length of these fragments. A metric that cannot run says why. Two runs are
    compared by approximate randomisation (two-sided p values, not corrected for the number of metrics). With --model,
    the summaries are kept in DIR/predictions.jsonl; if interrupted, rerun the same command to resume.
    """
    if (predictions is None) == (model is None):
        raise ValueError("give either --predictions FILE or --model MODEL.")
    if not dry_run:
        check_model(model)
        check_file(predictions, data, against)
    from unbottle.cli.train_options import replace_fields
    from unbottle.eval.bootstrap import Resampling
    from unbottle.eval.generation import Decoding
    from unbottle.eval.metrics.metric import EntailmentOptions, MauveOptions, SummaryScoreOptions
    from unbottle.eval.summary_scores import DEFAULT_METRICS, Columns, select_metrics

    names = select_metrics([name.strip() for name in metrics.split(",") if name.strip()] or DEFAULT_METRICS)
    columns = Columns(id=id_column, document=text_column, summary=summary_column, prediction=prediction_column)
    decoding = replace_fields(Decoding(), dict(key_values(setting or [])))
    joined = data if model is None or against is not None else None  # a model's predictions have all columns already
    paths = {FIRST: predictions or (output or Path()) / NAME} | ({} if against is None else {SECOND: against})
    options = SummaryScoreOptions(
        entailment=EntailmentOptions(model=entailment, label=entailment_label),
        mauve=MauveOptions(model=mauve_model),
        resampling=Resampling(rounds=rounds, seed=seed),
    )
    writing = {} if model is None else {"model": model, "data": data, "decoding": decoding.to_dict()}
    settings: dict[str, object] = {
        FIRST: paths[FIRST],
        "data": joined,
        SECOND: against,
        "columns": vars(columns),
        **writing,
    }
    settings |= {"metrics": list(names), "tagger": tagger, **{name: vars(part) for name, part in vars(options).items()}}
    config = config_of("eval summaries", settings, dry_run=dry_run)
    if model is not None:
        if data is None or output is None:
            raise ValueError(
                "--model needs --data, the documents, and --output, a folder for what it writes about them."
            )
        prepare(output)
        generate_summaries(model, read_documents(data, columns, needs(names)), decoding, output, prediction_column)
    elif setting:
        raise ValueError("--set is for --model: the predictions of a file exist already.")
    runs, notes = read_runs(paths, joined, columns, needs(names))
    prepare(output)
    scores, comparison = evaluate(runs, names, tagger, options)
    show(document(scores, comparison, notes))
    result = {"runs": {name: run.to_dict() for name, run in scores.items()}, "notes": notes}
    write_run(output, config, {**result, "comparison": None if comparison is None else comparison.to_dict()})


def generate_summaries(model: str, documents: Documents, decoding: Decoding, folder: Path, column: str) -> None:
    """Write NAME in the folder: the rows of the documents with a prediction each. An incomplete file is resumed."""
    from unbottle.cli.generate import GenerationJob, load_summarizer

    job = GenerationJob(command="summarize", decoding=decoding, column=documents.column, output=folder / NAME)
    with one_line_warnings():
        job.many(documents, lambda: load_summarizer(model, decoding), prediction_column=column)


def read_documents(path: Path, columns: Columns, needed: Collection[str]) -> Documents:
    """The documents to summarize; rows that could not be scored are refused before a model is loaded."""
    from unbottle.eval.generation import Documents

    rows = read_rows(path)
    empty = [row | {columns.prediction: ""} for row in rows]
    examples_of(path, empty, columns, {"document", *needed})
    return Documents.of_list(rows, columns.document)


def read_runs(
    paths: Mapping[str, Path], data: Path | None, columns: Columns, needed: Collection[str]
) -> tuple[dict[str, Examples], list[str]]:
    """One run or two, reduced to the examples that they have in common, and notes on what was left out.

    Predictions are joined by id with the rows of `data`, if there is such a file.
    """
    from unbottle.eval.summary_scores import in_common

    runs: dict[str, Examples] = {}
    notes: list[str] = []
    for name, path in paths.items():
        rows = read_rows(path)
        if data is not None:
            rows, more = joined_rows(rows, path, data, columns)
            notes += more
        runs[name] = examples_of(path, rows, columns, needed, by_id=len(paths) > 1)
    if len(runs) == 1:
        return runs, notes
    common = dict(zip(runs, in_common(*runs.values()), strict=True))
    for name, run in runs.items():
        if left := len(run.ids) - len(common[name].ids):
            notes.append(f"{left} of {len(run.ids)} examples of {paths[name]} are not in the other run and left out.")
    return common, notes


def joined_rows(rows: list[DataRow], path: Path, data_path: Path, columns: Columns) -> tuple[list[DataRow], list[str]]:
    """Each prediction with the row of the data that has its id, and a note on rows without one."""
    from unbottle.eval.summary_scores import check_unique

    data, key = read_rows(data_path), columns.id
    for where, table in ((path, rows), (data_path, data)):
        for place, row in enumerate(table, start=1):
            if key not in row:
                raise ValueError(f"{where}: row {place}: no column {key!r}. There are: {', '.join(row)}.")
    check_unique((str(row[key]) for row in data), str(data_path))
    by_id = {str(row[key]): row for row in data}
    unknown = [str(row[key]) for row in rows if str(row[key]) not in by_id]
    if unknown:
        raise ValueError(
            f"{path}: {len(unknown)} of {len(rows)} predictions have an id that is not in {data_path}: "
            f"{', '.join(unknown[:3])}."
        )
    name = columns.prediction  # the file's, even if the data has a column of that name
    joined = [{**row, **by_id[str(row[key])], **({name: row[name]} if name in row else {})} for row in rows]
    left = len(by_id) - len({str(row[key]) for row in rows})
    notes = [f"{left} of {len(data)} rows of {data_path} have no prediction in {path} and are left out."]
    return joined, notes if left else []


def examples_of(
    path: Path, rows: Sequence[DataRow], columns: Columns, needed: Collection[str], *, by_id: bool = False
) -> Examples:
    """The rows as examples with all that is needed; an error names their file."""
    from unbottle.eval.summary_scores import Examples

    try:
        return Examples.of(rows, columns=columns, needed=[*(["id"] if by_id else []), *sorted(needed)])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def needs(names: Sequence[str]) -> set[str]:
    """The inputs that the metrics need, as fields of Columns."""
    from unbottle.eval.summary_scores import METRICS

    return {need for name in names for need in METRICS[name].needs}


def evaluate(
    runs: dict[str, Examples], names: Sequence[str], tagger: str, options: SummaryScoreOptions
) -> tuple[dict[str, SummaryScores], MetricComparison | None]:
    from unbottle.eval.proper_nouns import tagger as tagger_of
    from unbottle.eval.summary_scores import compare_summaries, score_examples

    tag, scores = tagger_of(tagger), {}
    for name, examples in runs.items():
        with progress() as report:
            scores[name] = score_examples(examples, metrics=names, tagger=tag, options=options, report=report)
    return scores, compare_summaries(scores[FIRST], scores[SECOND]) if SECOND in scores else None


def document(scores: dict[str, SummaryScores], comparison: MetricComparison | None, notes: Iterable[str]) -> str:
    """A Markdown table with a row for each metric, then notes, metrics that could not run, and implementations."""
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
    lines = remarks(scores)
    parts += ["\n".join(lines)] if lines else []
    codes = {name: score.implementation for name, score in first.metrics.items() if score.implementation}
    return "\n\n".join([*parts, by_implementation(codes)])


def remarks(scores: dict[str, SummaryScores]) -> list[str]:
    """Notes on metrics and why some have no value; a remark that holds for both runs comes once."""
    by_text: dict[str, list[str]] = {}
    for which, run in scores.items():
        for name, score in run.metrics.items():
            text = f"cannot be measured: {score.why}" if score.why else score.note
            if text:
                by_text.setdefault(f"{name}: {text.removesuffix('.')}.", []).append(which)
    return [text if len(runs) == len(scores) else f"{', '.join(runs)}, {text}" for text, runs in by_text.items()]


def ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.{DIGITS}f} to {high:.{DIGITS}f}"
