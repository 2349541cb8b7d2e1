"""unbottle reproduce, unbottle compare and unbottle report: tables of results, of the paper's models and of yours."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.errors import INTERRUPTED
from unbottle.cli.options import (
    DryRun,
    argument,
    check_choice,
    check_file,
    check_method,
    check_model,
    check_place,
    flag,
    option,
)
from unbottle.cli.output import config_of, end_dry_run, prepare_file, show
from unbottle.data.sources import NAMED, SAMPLE, TEXT_NAMES
from unbottle.experiments import EXPERIMENTS, load_experiment
from unbottle.files import write_text
from unbottle.progress import one_line_warnings, progress

TEMPLATES = ("public", "own")
PRESETS = ("paper", "cpu", "tiny")
TAGGED = ("table3", "summarization")  # experiments that look for proper nouns
REPRODUCE_EXAMPLES = """
unbottle reproduce table1 --preset cpu --data wikitext-2
unbottle reproduce table1 --preset cpu --data wikitext-2 --seeds 3 --output results/cpu
unbottle reproduce table1 --preset cpu --method softmax+mi --method softmax+c+mi
unbottle reproduce analogy --pairs questions-words.txt
unbottle reproduce analogy --model smollm2 --train lora --contexts 50
unbottle reproduce table1 --preset tiny
unbottle reproduce order-bias --preset paper --dry-run
unbottle reproduce summarization --preset cpu --data samsum --size T5 --threads 1
unbottle reproduce summarization --data samsum --mauve-model gpt2-large --entailment manueldeprada/FactCC
unbottle reproduce t5-size-curve --preset paper --data cnn_dailymail
"""
COMPARE_EXAMPLES = """
unbottle compare --model smollm2 --data python
unbottle compare --model HuggingFaceTB/SmolLM2-135M --data my-text.txt --tokens 100000
unbottle compare --model smollm2 --data wikitext-2 --method softmax+mi --method "softmax+c+mi form=residual"
unbottle compare --model smollm2 --data wikitext-2 --train all --lr 1e-5 --seeds 1
unbottle compare --model t5-small --data samsum --pairs 1600 --lr 3e-4 --seeds 1 --train all
"""
REPORT_EXAMPLES = """
unbottle report runs/demo
unbottle report runs/perplexity runs/probe --output both.html
unbottle report results/cpu results/bench --title "All results" --output results.html
"""

Seeds = Annotated[int, option("N", "Number of seeds: 0, 1, ... N - 1.", min=1)]
Threads = Annotated[int | None, option("N", "Number of threads. [all cores]")]


def reproduce(
    experiment: Annotated[str, argument("EXPERIMENT", f"{', '.join(EXPERIMENTS)}.")],
    preset: Annotated[
        str, option("PRESET", "cpu: small models trained here; paper: hub models and a GPU; tiny.")
    ] = "cpu",
    data: Annotated[
        str | None,
        option(
            "PATH",
            "A file, a folder with files train, valid and test, a hub data set, or a known name: wikitext-2, "
            "wikitext-103, openwebtext, wikipedia, python; of summaries cnn_dailymail, xsum, samsum, booksum-chapters. "
            "[the preset's]",
        ),
    ] = None,
    method: Annotated[list[str] | None, option("METHOD", "Run only this row; repeatable. [all of the table]")] = None,
    size: Annotated[
        list[str] | None, option("NAME", "Run only this backbone; repeatable. [all of the experiment]")
    ] = None,
    model: Annotated[
        str | None,
        option("MODEL", "A pretrained causal model instead of the preset's: a folder, a hub name, or smollm2."),
    ] = None,
    train: Annotated[str | None, option("WHAT", "With --model: what is trained, head or lora. [head]")] = None,
    templates: Annotated[
        str, option("NAME", "analogy: public, the paper's protocol, or own, our templates.")
    ] = "public",
    pairs: Annotated[
        Path | None, option("FILE", "analogy: pairs of words, as in questions-words.txt. [the package's]")
    ] = None,
    contexts: Annotated[
        int | None, option("N", "analogy: contexts of each relation, kind and part. [the preset's]", min=2)
    ] = None,
    mauve_model: Annotated[
        str | None, option("MODEL", "summarization: measure MAUVE too, with features of this model, hub or folder.")
    ] = None,
    entailment: Annotated[
        str | None, option("MODEL", "summarization: measure FactCC too, with this classifier, hub or folder.")
    ] = None,
    tagger: Annotated[
        str | None,
        option(
            "TAGGER",
            "table3, summarization: tagger of proper nouns: auto, spacy, spacy:PATH, nltk or rules. "
            "[auto; preset paper: spacy]",
        ),
    ] = None,
    seeds: Seeds = 1,
    work: Annotated[
        Path | None, option("DIR", "Folder for trained models. [runs/reproduce-PRESET, -PRESET-DATA or -MODEL-WHAT]")
    ] = None,
    output: Annotated[
        Path | None, option("DIR", "Folder for the results. [results/PRESET, or results/MODEL-WHAT]")
    ] = None,
    threads: Threads = None,
    dry_run: Annotated[bool, flag("--dry-run", "Print the preset and exit.")] = False,
) -> None:
    """Run every row of a table of the paper and show the paper's own numbers beside it.

    {experiments}

    summarization and t5-size-curve read pairs of document and summary; a folder that is named after a data set, as
    samsum, has its columns. Every row is saved when it is done: if interrupted, rerun the same command to resume.
    Several processes may share the rows.

    Times are estimates for one seed of preset cpu on two cores; each backbone is trained first, in 5 to 10 minutes.
    Preset cpu needs 3 GB of memory, 7 GB with wbwR, and a text or pairs, from the Hub unless --data is a file or
    folder. Preset paper needs a GPU, the Hub and days; preset tiny needs nothing and takes seconds.
    """
    check_choice("experiment", experiment, tuple(EXPERIMENTS))
    check_choice("preset", preset, PRESETS)
    check_choice("templates", templates, TEMPLATES)
    if train is not None:
        check_choice("train", train, ("head", "lora"))
        if model is None:
            raise ValueError(f"--train {train}: only with --model. The preset says how its own backbones are trained.")
    check_method(*(method or ()))
    if not dry_run:
        check_file(pairs)
        if data not in (None, SAMPLE):
            check_place(data, (*TEXT_NAMES, *NAMED))
    if experiment == "analogy" and templates == "own":
        experiment = "analogy-own"
    table, variant = load_experiment(experiment), ""
    if pairs is not None:
        from unbottle.data.analogy import read_word_pairs

        if not experiment.startswith("analogy"):
            raise ValueError(f"--pairs {pairs}: only for analogy, not for {experiment}.")
        variant = f"-{pairs.stem}"
        measure_pairs: Any = table.measure  # those of the analogies take these two
        words = None if dry_run else read_word_pairs(pairs)
        table = replace(table, measure=partial(measure_pairs, pairs=words, name=variant))
    from unbottle.experiments.presets import Backbone, LanguagePreset

    settings, name = table.workspace.presets[preset], preset
    if contexts is not None:
        if not (experiment.startswith("analogy") and isinstance(settings, LanguagePreset)):
            raise ValueError(f"--contexts {contexts}: only for analogy, not for {experiment}.")
        settings = replace(settings, analogies=contexts)
    if model is not None:
        if not isinstance(settings, LanguagePreset):
            raise ValueError(f"--model {model}: only for experiments on causal models, not for {experiment}.")
        if not dry_run:
            check_model(model)
        train = train or "head"
        settings, name = settings.on_model(model, train=train), f"{Path(model).name}-{train}"
    judges = [judge for judge in (mauve_model, entailment) if judge is not None]
    if judges and experiment != "summarization":
        raise ValueError(f"--mauve-model, --entailment: only for summarization, not for {experiment}.")
    if judges and not dry_run:
        check_model(*judges)
    if tagger is not None and experiment not in TAGGED:
        raise ValueError(f"--tagger {tagger}: only for {' and '.join(TAGGED)}, not for {experiment}.")
    if experiment in TAGGED and preset == "paper":
        tagger = tagger or "spacy"  # the paper's
    from unbottle.experiments.presets import without_path

    kind, _, folder = (tagger or "").partition(":")
    given = {
        "data": without_path(data),
        "pairs": pairs and pairs.name,
        "model": without_path(model),
        "train": train,
        "contexts": contexts,
        "mauve-model": without_path(mauve_model),
        "entailment": without_path(entailment),
        "tagger": f"{kind}:{without_path(folder)}" if folder else tagger,
    }
    options = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    command = shlex.join(["unbottle", "reproduce", experiment, "--preset", preset, *options])
    table = replace(table, command=command)
    methods, sizes = table.select_methods(settings, method or ()), table.select_sizes(settings, size or ())
    data = data or settings.data
    suffix = table.workspace.suffix(data)
    work = work or Path(f"runs/reproduce-{name}{suffix}")
    output = output or Path(f"results/{name}")
    if dry_run:
        rows = {"experiment": experiment, "methods": methods, "sizes": sizes, "seeds": list(range(seeds))}
        folders = {"data": data, "work": str(work), "output": str(output)}
        judged = {"tagger": tagger, "mauve_model": mauve_model, "entailment": entailment}
        end_dry_run({**rows, **folders, **judged, "preset": settings.to_dict()})
    from unbottle.cli.models import config_of_model, fetched
    from unbottle.experiments.runner import run_experiment
    from unbottle.hf.pretrained import language_model

    if model is not None:
        settings = replace(settings, backbones={size: Backbone(pretrained=fetched(model)) for size in sizes})
    if tagger is not None:
        from unbottle.eval.proper_nouns import tagger as tagger_of
        from unbottle.experiments.results import TAGGER

        table = replace(table, models={TAGGER: tagger_of(tagger).description})
    if judges:
        from unbottle.experiments.summary_tables import with_models

        mauve_model, entailment = (judge and fetched(judge) for judge in (mauve_model, entailment))
        table = with_models(table, mauve=mauve_model, factcc=entailment)

    summarizes = not isinstance(settings, LanguagePreset)
    with one_line_warnings(), progress() as report, ExitStack() as stack:
        for name in filter(None, (settings.backbones[size].pretrained for size in sizes)):
            # before data are downloaded and anything is written
            config = config_of_model(name, encoder_decoder=summarizes)
            if model is not None:
                stack.enter_context(language_model(name, config))
        workspace = table.workspace(work, settings, data, progress=report, threads=threads)
        workspace.tagger = tagger or workspace.tagger
        rows_to_run = table.rows(settings, range(seeds), methods=methods, sizes=sizes)
        try:
            results = run_experiment(table, workspace, output / f"{experiment}{variant}{suffix}", rows_to_run)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    show(results.markdown())
    print(f"\nWritten to {results.folder}")


reproduce.__doc__ = (reproduce.__doc__ or "").format(
    experiments=" ".join(
        f"{name}: {entry.about} ({entry.time}{entry.needs and f'; needs {entry.needs}'})."
        for name, entry in EXPERIMENTS.items()
    )
)


def compare(
    model: Annotated[str, option("MODEL", "A causal model: a folder, a hub name, or smollm2, which the demo uses.")],
    data: Annotated[
        str,
        option(
            "PATH",
            "A file, a folder with files train, valid and test, a hub data set, wikitext-2, wikitext-103, or "
            "python: the source code of its standard library.",
        ),
    ],
    method: Annotated[
        list[str] | None,
        option("METHOD", 'A row, as softmax+c+mi or "softmax+c+mi form=paper"; repeatable. [fifteen rows]'),
    ] = None,
    train: Annotated[str, option("WHAT", "Weights to train: head, all or lora.")] = "head",
    tokens: Annotated[int, option("N", "Number of training tokens.", min=1)] = 24_576,
    valid_tokens: Annotated[int, option("N", "Number of validation tokens, to choose a learning rate.", min=1)] = 4_096,
    test_tokens: Annotated[int, option("N", "Number of held-out tokens.", min=1)] = 12_288,
    length: Annotated[int, option("N", "Maximum number of tokens of a window or document.", min=2)] = 256,
    pairs: Annotated[
        int | None, option("N", "Number of training pairs of document and summary, for an encoder-decoder.", min=1)
    ] = None,
    valid_pairs: Annotated[
        int, option("N", "Number of validation pairs, with --pairs, to choose a learning rate.", min=1)
    ] = 200,
    test_pairs: Annotated[int, option("N", "Number of held-out pairs, with --pairs.", min=1)] = 400,
    generate: Annotated[
        int, option("N", "Number of held-out documents to write summaries of, with --pairs.", min=1)
    ] = 100,
    batch: Annotated[int | None, option("N", "Batch size: windows or pairs. [2 or 8]", min=1)] = None,
    lr: Annotated[
        list[float] | None,
        option(
            "RATE",
            "Learning rate; repeatable: the best one for the baseline is used. [1e-6 to 3e-4; with --pairs 3e-4]",
        ),
    ] = None,
    bf16: Annotated[
        bool, flag("--bf16", "Train under bfloat16 autocast, as --bf16 of the Trainer; evaluation stays in float32.")
    ] = False,
    seeds: Seeds = 3,
    tagger: Annotated[
        str | None,
        option("TAGGER", "Tagger of proper nouns: auto, spacy, spacy:PATH, nltk, rules, identifiers. [by the text]"),
    ] = None,
    gradients: Annotated[int, option("N", "Measure the gradient share at N positions (slow).", min=0)] = 0,
    keep_models: Annotated[bool, flag("--keep-models", "Keep the trained models.")] = False,
    work: Annotated[Path | None, option("DIR", "Folder for hidden states and models. [runs/compare-...]")] = None,
    output: Annotated[Path | None, option("DIR", "Folder for the results. [results/MODEL]")] = None,
    threads: Threads = None,
    dry_run: DryRun = False,
) -> None:
    """Train several output layers on the same model and text, and compare them, with confidence intervals.

    The learning rate that is best for the baseline, softmax+mi, is used for all rows that have none of their own. A row
    may name one (lr=1e-4) or several (lr=3e-5,1e-4), of which the validation part chooses one. Every row sees the same
    windows in the same order. Perplexity is split by where the true next word was. With --pairs, the model is an
    encoder-decoder that learns to summarize, and the baseline is softmax. Every row is saved when it is done: if
    interrupted, rerun the same command to resume. Several processes may share the rows.
    """
    check_choice("train", train, ("head", "all", "lora"))
    check_method(*(method or ()))
    if not dry_run:
        check_model(model)
        check_place(data, TEXT_NAMES if pairs is None else NAMED)
    from unbottle.experiments import compare as texts
    from unbottle.experiments import compare_summaries as summaries

    common: dict[str, Any] = {
        "train": train,
        "length": length,
        "batch": batch,
        "lrs": lr,
        "precision": "bfloat16" if bf16 else "float32",
    }
    preset: texts.Comparison | summaries.SummaryComparison
    workspace_class: Any
    run: Any
    if pairs is None:
        parts: dict[str, Any] = {"train_tokens": tokens, "valid_tokens": valid_tokens, "test_tokens": test_tokens}
        preset = texts.Comparison.create(model, data, **parts, tagger=tagger, gradients=gradients, **common)
        rows, workspace_class, run = texts.select_rows(method or ()), texts.CompareWorkspace, texts.compare
        amount = f"--tokens {tokens} --valid-tokens {valid_tokens} --test-tokens {test_tokens} --length {length}"
    else:
        numbers: dict[str, Any] = {
            "pairs": pairs,
            "valid_pairs": valid_pairs,
            "test_pairs": test_pairs,
            "generated": generate,
        }
        preset = summaries.SummaryComparison.create(model, data, **numbers, **common)
        rows, workspace_class = summaries.select_summary_rows(method or ()), summaries.SummaryCompareWorkspace
        run = summaries.compare_summaries
        amount = f"--pairs {pairs} --valid-pairs {valid_pairs} --test-pairs {test_pairs} --generate {generate}"
        amount += f" --length {length}"
    size = next(iter(preset.backbones))
    work = work or Path(f"runs/compare-{size}-{Path(data).name}-{train}")
    output = output or Path(f"results/{size}")
    if dry_run:
        settings = {"methods": rows, "seeds": list(range(seeds)), "work": str(work), "output": str(output)}
        end_dry_run({**settings, "comparison": preset.to_dict()})
    from unbottle.cli.models import config_of_model, fetched
    from unbottle.experiments.presets import Backbone
    from unbottle.hf.pretrained import language_model

    more = "" if lr is None else "".join(f" --lr {rate:g}" for rate in lr)
    more += (f" --batch {batch}" if batch else "") + " --bf16" * bf16
    more += f" --gradients {gradients}" if gradients else ""
    more += f" --tagger {preset.to_dict()['tagger']}" if tagger and pairs is None else ""
    more += f" --seeds {seeds}" + "".join(f" --method {shlex.quote(row)}" for row in method or ())
    command = f"unbottle compare --model {size} --data {Path(data).name} --train {train} {amount}{more}"
    path = fetched(model)
    preset = replace(preset, backbones={size: Backbone(pretrained=path)})
    with one_line_warnings(), progress() as report:
        config = config_of_model(path, encoder_decoder=pairs is not None)
        workspace = workspace_class(work, preset, data, progress=report, threads=threads)
        workspace.keep_models = keep_models
        with language_model(path, config):
            results = run(workspace, output, rows, seeds=range(seeds), command=command)
    show(results.markdown())
    print(f"\nWritten to {results.folder}")


def report(
    run: Annotated[list[str], argument("RUN...", "Folders of runs, or folders with runs in them.")],
    output: Annotated[Path, option("FILE", "HTML file to write.")] = Path("report.html"),
    title: Annotated[str, option("TEXT", "Title of the page.")] = "Unbottle: results",
    dry_run: DryRun = False,
) -> None:
    """Make one HTML page of the results of demo, eval perplexity, eval probe, eval summaries, bench and reproduce.

    The page is a single file that contains its pictures and loads nothing.
    """
    config_of("report", {"runs": run, "output": output, "title": title}, dry_run=dry_run)
    prepare_file(output)
    from unbottle.report.page import Section, page
    from unbottle.report.sections import find_runs, sections_of

    folders = [folder for path in run for folder in find_runs(Path(path))]
    sections = [
        Section(title=section.title if len(folders) == 1 else f"{folder}: {section.title}", body=section.body)
        for folder in folders
        for section in sections_of(folder)
    ]
    write_text(output, page(title, sections))
    print(f"Written to {output}: {len(folders)} {'run' if len(folders) == 1 else 'runs'}, {len(sections)} sections")
