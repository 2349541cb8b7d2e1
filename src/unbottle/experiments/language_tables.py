"""The paper's experiments on language models: perplexity (tb:perplexity, tb:reranker), size (fig:gpt_loss_size),
ambiguous contexts (tb:analogy), text completion (tb:gpt2_gen_other), next words (tb:context_example), order of lists.
"""

from __future__ import annotations

import random
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import exp
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.timing import SystemClock, Times, Work, take_turns
from unbottle.data.analogy import (
    KINDS,
    RELATIONS,
    SIZE,
    Analogy,
    WordPairs,
    analogies,
    public_analogies,
    training_text,
)
from unbottle.eval import perplexity
from unbottle.eval.analogy import AnalogyRow, analogy
from unbottle.eval.completion import FILE as COMPLETIONS
from unbottle.eval.completion import CompletionConfig, CompletionRow, completion, read_completions, scores
from unbottle.eval.inference import LanguageModel
from unbottle.eval.next_words import PROMPTS, Prompt, probe
from unbottle.eval.order_bias import order_bias, tried_orders
from unbottle.eval.proper_nouns import tagger
from unbottle.experiments import paper
from unbottle.experiments.corpora import Sentences
from unbottle.experiments.presets import Json
from unbottle.experiments.results import (
    Column,
    Experiment,
    PaperPoints,
    ResultRow,
    RowKey,
    every_size,
    first_size,
    of_backbone,
)
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.workspace import LanguageWorkspace
from unbottle.tables import Estimate

CURVE = ("softmax", "softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")
GROUPS = ("context", "top", "elsewhere")  # of tokens, in eval.perplexity
ROUNDS = 15
COMPLETED = 20_000_000  # tokens of the test part, at most, that texts to complete are drawn from
RESAMPLES = 1000  # of the excerpts, for intervals


def measure_perplexity(
    workspace: LanguageWorkspace, row: RowKey, *, part: str, share: float = 1.0, limit: int | None = None
) -> Json:
    """Train a row, then compute the perplexity of a part of the text, by groups of tokens.

    W(k) is that of the plain backbone, so that the groups of all methods have the same tokens. `limit` is the number of
    tokens, by default the preset's for a test.
    """
    limit = workspace.preset.test_tokens if limit is None else limit
    model = workspace.load(workspace.trained_model(*row, share=share))
    reference = workspace.load(workspace.base(row.size))
    result = perplexity(model, workspace.windows(part, limit), reference=reference).to_dict()
    return {
        "size": num_parameters(model) / 1e6,
        "loss": result["loss"],
        "perplexity": result["perplexity"],
        "tokens": result["tokens"],
        **{name: result["groups"][name]["perplexity"] for name in GROUPS},
        "windows": result["windows"],
    }


def num_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def time_ratios(workspace: LanguageWorkspace, rows: Sequence[ResultRow]) -> Json:
    """CPU time of a forward pass over a batch as a ratio to the first row of the backbone; on a GPU, time by the clock.

    With several backbones, the keys name them.
    """
    sizes = list(dict.fromkeys(row.size for row in rows))
    if len(sizes) > 1:
        return {
            of_backbone(size, method): metrics
            for size in sizes
            for method, metrics in time_ratios(workspace, [row for row in rows if row.size == size]).items()
        }
    rows = [row for row in rows if not row.is_broken]
    if not rows:
        return {}
    first = rows[0]
    models = {row.method: workspace.load(workspace.trained_model(*row.key)) for row in rows if row.seed == first.seed}
    length, batch = workspace.preset.rows.length, workspace.preset.rows.batch
    ids = torch.from_numpy(workspace.corpus.test[: length * batch].astype("int64")).view(-1, length)
    ids = ids.to(next(iter(models.values())).device)

    def forward(model: PreTrainedModel) -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)
        if ids.is_cuda:
            torch.cuda.synchronize()

    medians = median_times({method: partial(forward, model) for method, model in models.items()}, wall=ids.is_cuda)
    return {method: {"time": seconds / medians[first.method]} for method, seconds in medians.items()}


def median_times(runs: Mapping[str, Callable[[], None]], *, wall: bool = False) -> dict[str, float]:
    """CPU seconds of all threads, or seconds that passed: the median of rounds in which every function has its turn."""
    times: Times = {}
    works = {name: Work(lambda: None, run) for name, run in runs.items()}
    take_turns(works, times, repeats=ROUNDS, clock=SystemClock(), order=random.Random(0))
    return {
        name: sorted(time.wall if wall else time.cpu for time in rounds)[len(rounds) // 2]
        for name, rounds in times.items()
    }


def plot_perplexities(
    rows: Sequence[ResultRow],
    path: Path,
    paper: PaperPoints | None = None,
    *,
    title: Callable[[ResultRow], str] = lambda row: RowSpec.parse(row.method).title,
    label: str = "perplexity",
    mark: str | None = "Softmax + Mi",
) -> None:
    """A dot for each method, with its standard error; `mark` is the title of the row to compare with."""
    from unbottle.report import plots

    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(title(row), []).append(row.metrics["perplexity"])
    estimates = {name: Estimate.of(numbers) for name, numbers in values.items()}
    plots.dots(estimates, path, label=label, mark=mark)


def metric_panels(
    rows: Sequence[ResultRow],
    path: Path,
    paper: PaperPoints,
    *,
    title: str,
    metrics: Mapping[str, tuple[str, tuple[str, ...]]],
    baseline: str | None = "softmax+mi",
) -> None:
    """A panel for each metric (title: key, the paper's columns): each method's difference to the baseline in percent.

    So numbers of small models here stand beside the paper's. Differences are taken seed by seed. Without a baseline,
    or without a row of it, the values are shown as they are.
    """
    from unbottle.report.panels import Panel, panels

    if all(row.method != baseline for row in rows):
        baseline = None
    sizes = list(dict.fromkeys(row.size for row in rows))

    def name(size: str, method: str) -> str:
        return RowSpec.parse(method).title if len(sizes) == 1 else f"{size}, {RowSpec.parse(method).title}"

    def change(value: float, base: float | None) -> float | None:
        return value if baseline is None else 100 * (value / base - 1) if base else None

    contents = []
    for heading, (key, columns) in metrics.items():
        base = {(row.size, row.seed): row.metrics.get(key) for row in rows if row.method == baseline}
        ours: dict[str, list[float]] = {}
        theirs: dict[str, dict[str, float]] = {}
        for row in rows:
            if row.metrics.get(key) is None:
                continue
            value = change(row.metrics[key], base.get((row.size, row.seed)))
            if value is not None:
                ours.setdefault(name(row.size, row.method), []).append(value)
            numbers = paper.get(row.size, {})
            for column in columns if baseline in numbers and row.method in numbers else ():
                value = change(numbers[row.method][column], numbers[str(baseline)][column])
                if value is not None:
                    series = "paper" if len(columns) == 1 else f"paper, {column}"
                    theirs.setdefault(series, {})[name(row.size, row.method)] = value
        if ours:
            values = {method: Estimate.of(numbers) for method, numbers in ours.items()}
            contents.append(Panel(title=heading, values=values, paper=theirs))
    if contents:
        label = "" if baseline is None else f"difference to {RowSpec.parse(baseline).title}, %"
        panels(contents, path, title=title, label=label, zero=baseline is not None)


def plot_size_curve(
    rows: Sequence[ResultRow], path: Path, paper: PaperPoints | None = None, *, key: str = "loss"
) -> None:
    """Loss against the number of parameters, a line for each method; what the paper prints is dashed."""
    from unbottle.report import plots

    points: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        line = points.setdefault(RowSpec.parse(row.method).title, {})
        line.setdefault(row.metrics["size"], []).append(row.metrics[key])
    lines = {
        name: [(size, Estimate.of(losses)) for size, losses in sorted(line.items())] for name, line in points.items()
    }
    for method in dict.fromkeys(row.method for row in rows):
        numbers = {
            (columns["Size"], columns["Loss"])
            for methods in (paper or {}).values()
            if "Loss" in (columns := methods.get(method, {}))
        }
        if numbers:
            name = f"{RowSpec.parse(method).title} (paper)"
            lines[name] = [(size, Estimate(loss, None, 1)) for size, loss in sorted(numbers)]
    plots.curves(lines, path, x="parameters (millions)", y="loss on the test text")


TABLE1 = Experiment(
    name="table1",
    title="Test perplexity of output layers on the same backbone (tb:perplexity)",
    methods=tuple(paper.PERPLEXITY_SMALL),
    measure=partial(measure_perplexity, part="test"),
    columns=(
        Column("Size", "size"),
        Column("Time ratio", "time"),
        Column("Perplexity", "perplexity"),
        Column("in context", "context"),
        Column("in W(100)", "top"),
        Column("elsewhere", "elsewhere"),
    ),
    paper_columns=paper.PERPLEXITY_COLUMNS,
    paper={"GPT-2 Small": paper.PERPLEXITY_SMALL, "GPT-2 Medium": paper.PERPLEXITY_MEDIUM},
    column_data={"OWT": "openwebtext", "Wiki": "wikipedia"},
    finish=time_ratios,
    sizes=lambda preset: preset.table or first_size(preset),
    plot=partial(
        metric_panels,
        title="Test perplexity (tb:perplexity)",
        metrics={"perplexity": ("perplexity", ("OWT", "Wiki")), "of words of the context": ("context", ())},
    ),
    time="preset cpu: 15 rows of about 4 minutes on two cores; preset paper: a GPU, days",
    note="Perplexity in context, in W(100), elsewhere: by where the true next token was. W(100) is that of the plain "
    "backbone, so that all rows have the same groups of tokens. Time: CPU time of a forward pass as a ratio to the "
    "first row, measured in turns.",
)
TABLE2 = Experiment(
    name="table2",
    title="Word-by-word reranker, validation perplexity after a short training (tb:reranker)",
    methods=tuple(paper.RERANKER),
    measure=lambda workspace, row: measure_perplexity(
        workspace,
        row,
        part="valid",
        share=workspace.preset.reranker_share,
        limit=workspace.preset.reranker_tokens,
    ),
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    paper_columns=paper.RERANKER_COLUMNS,
    paper={"GPT-2 Small": paper.RERANKER},
    plot=partial(
        metric_panels,
        title="Word-by-word reranker (tb:reranker)",
        metrics={"validation perplexity": ("perplexity", ("Wiki",))},
    ),
    time="preset cpu: a row of wbwR takes about half an hour, the others minutes",
    note="wbwR trains on the sum of the losses of both stages; the perplexity is that of the second.",
)
SIZE_CURVE = Experiment(
    name="size-curve",
    title="Loss against size (fig:gpt_loss_size)",
    methods=CURVE,
    measure=lambda workspace, row: measure_perplexity(
        workspace, row, part="test", share=workspace.preset.curve_share(row.size)
    ),
    columns=(Column("Size", "size"), Column("Loss", "loss", 3)),
    sizes=every_size,
    plot=plot_size_curve,
    time="preset cpu: 15 rows of 3 to 8 minutes, of three sizes",
    note="The paper shows this as a figure without numbers: its lines fall with size, CPR's lies below those of MoS.",
)


KS = (20, 100, 200, 500)  # what the paper tried for k1 and k2
SWEEP_K = Experiment(
    name="sweep-k",
    title="How many words to rerank: validation perplexity",
    methods=(
        "softmax+mi",
        *(f"softmax+cpr:{k}+mi" for k in KS),
        *(f"softmax+cpr:{first},{second}+mi" for first, second in combinations(KS, 2)),
    ),
    measure=lambda workspace, row: {**measure_perplexity(workspace, row, part="valid"), "windows": None},
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    plot=partial(
        metric_panels,
        title="k of the reranker partitions (the paper chose 20,100)",
        metrics={"validation perplexity": ("perplexity", ())},
    ),
    time="preset cpu: 11 rows of about 4 minutes on two cores",
    note="The paper tried 20, 100, 200 and 500 for k1 and k2 and chose 20,100 by validation; it prints no number.",
)


def measure_analogy(
    workspace: LanguageWorkspace, row: RowKey, *, pairs: WordPairs | None = None, name: str = ""
) -> Json:
    """Train on ambiguous contexts, then compute the perplexity of the two answers per token: the public protocol.

    The loss is that of the answer only, and the output embeddings stay as they are.
    """
    items = public_analogies(seed=0, pairs=pairs, size=workspace.preset.analogies)
    texts = [(item.prompt, f" {answer}") for item in items if item.part == "train" for answer in item.answers]
    return {
        **_analogy_metrics(workspace, row, items, texts, group=f"analogy-public{name}", freeze_output=True),
        "pairs": name.lstrip("-") or "own",
    }


def measure_own_analogy(
    workspace: LanguageWorkspace, row: RowKey, *, pairs: WordPairs | None = None, name: str = ""
) -> Json:
    """The same with our own templates: other words in the test, all of the text has a loss, perplexity per word."""
    items = analogies(seed=0, pairs=pairs, size=workspace.preset.analogies or SIZE)
    texts = training_text([item for item in items if item.part == "train"], seed=0)
    return _analogy_metrics(workspace, row, items, texts, group=f"analogy{name}", per_word=True)


def _analogy_metrics(
    workspace: LanguageWorkspace,
    row: RowKey,
    items: Sequence[Analogy],
    texts: Sequence[str] | Sequence[tuple[str, str]],
    *,
    group: str,
    freeze_output: bool = False,
    per_word: bool = False,
) -> Json:
    folder = workspace.train_row(
        *row,
        data=lambda: Sentences(texts, workspace.tokenizer),
        settings=workspace.preset.row_settings(row.size),
        group=group,
        freeze_output=freeze_output,
    )
    model = workspace.load(folder)
    valid, test = (
        analogy(model, workspace.tokenizer, [item for item in items if item.part == part]) for part in ("valid", "test")
    )

    def number(row: AnalogyRow) -> float:
        return row.perplexity if per_word else row.token_perplexity

    metrics = {f"{kind} valid": number(valid.row(kind)) for kind in KINDS}
    metrics |= {f"{kind} {relation}": number(test.row(kind, relation)) for kind in KINDS for relation in RELATIONS}
    floor = {} if per_word else {"floor": test.overall.token_floor}
    return metrics | floor | {"answers": test.overall.answer_mass, "distractors": test.overall.distractor_mass}


ANALOGY = Experiment(
    name="analogy",
    title="Perplexity of two equally likely words after ambiguous contexts (tb:analogy)",
    methods=tuple(paper.ANALOGY),
    measure=measure_analogy,
    columns=(
        *(Column(title, title) for title in paper.ANALOGY_COLUMNS),
        Column("lowest possible", "floor"),
        Column("answers", "answers", 3),
        Column("distractors", "distractors", 3),
    ),
    paper_columns=paper.ANALOGY_COLUMNS,
    paper={"GPT-2 Small": paper.ANALOGY},
    plot=partial(
        metric_panels,
        title="Ambiguous contexts: perplexity per token of the answer (tb:analogy)",
        metrics={title: (title, (title,)) for title in paper.ANALOGY_COLUMNS},
    ),
    time="preset cpu: 4 rows of about 3 minutes on two cores",
    note="Perplexity per token of the answer under its true distribution, 1/2 for each word. Four templates about "
    "places, four about people; half of the pairs are for training, valid has contexts of one such pair and one that "
    "was never seen, the others of two that were never seen. Loss of the answer only, output embeddings frozen. The "
    "lowest possible perplexity depends on how many tokens words have, so it differs between tokenizers. Answers, "
    "distractors: mean probability of the two answers, of the two other words of the parallelogram.",
)
ANALOGY_OWN = replace(
    ANALOGY,
    name="analogy-own",
    title="Perplexity of two equally likely words after ambiguous contexts of our own",
    measure=measure_own_analogy,
    columns=tuple(column for column in ANALOGY.columns if column.key != "floor"),
    note="Perplexity of the whole answer under its true distribution, 1/2 for each word: no model can be below 2. 48 "
    "templates; no word of a part is in another. The paper's numbers are per token and of other templates: compare the "
    "order of rows. Answers, distractors: mean probability of the two answers, of the two other words of the "
    "parallelogram.",
)


def measure_completion(workspace: LanguageWorkspace, row: RowKey) -> Json:
    """The paper's protocol of text completion, on the same sequences of the test part for every method."""
    folder, tokenizer = workspace.trained_model(*row), workspace.tokenizer
    preset = workspace.preset
    config = CompletionConfig(samples=preset.sequences, draws=preset.draws, seed=row.seed, prompts=preset.prompts)
    text = str(tokenizer.decode(workspace.corpus.test[:COMPLETED].tolist()))
    output = folder.parent / ("completion" if preset.draws == 1 else f"completion-{preset.draws}")
    model = workspace.load(folder)
    report = workspace.labelled("generating")
    result = completion(model, tokenizer, [text], tagger=tagger(), config=config, output=output, report=report)
    return {
        **result.scores["all"],
        "intervals": completion_intervals(output / COMPLETIONS, seed=row.seed),
        "tagger": result.tagger,
        "continuations": result.continuations,
    }


def completion_intervals(path: Path, *, seed: int) -> dict[str, tuple[float, float]]:
    """95 % bootstrap intervals of the metrics, over the excerpts: continuations of one excerpt stay together."""
    _, rows = read_completions(path)
    by_excerpt: dict[int, list[CompletionRow]] = {}
    for row in rows:
        by_excerpt.setdefault(row["sample"], []).append(row)
    draw, tags = random.Random(seed), tagger()
    excerpts = [scores(members, tags) | {"count": float(len(members))} for members in by_excerpt.values()]
    intervals = {}
    for name in ("R1", "R1C", "R1P", "R1PC", "R2"):
        values = [float(excerpt[name] or 0) for excerpt in excerpts]
        means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
        intervals[name] = (means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1])
    return intervals


TABLE3 = Experiment(
    name="table3",
    title="Text completion (tb:gpt2_gen_other, of which tb:dynamic_partition_rouge_1 is a part)",
    methods=tuple(paper.COMPLETION),
    measure=measure_completion,
    columns=tuple(
        Column(name, name, 3 if name in ("P Ratio", "CIDEr", "NIST") else 2) for name in paper.COMPLETION_COLUMNS
    ),
    paper_columns=paper.COMPLETION_COLUMNS,
    paper={"GPT-2 Small": paper.COMPLETION},
    plot=partial(
        metric_panels,
        title="Text completion (tb:gpt2_gen_other)",
        metrics={name: (name, (name,)) for name in paper.COMPLETION_COLUMNS},
    ),
    time="preset cpu: 15 rows of about 10 minutes on two cores",
    note="ROUGE without a stemmer; `unbottle eval completion --from FILE --stemmer` scores the same continuations with "
    "one. R1 to R2 are percent; results.json has 95 % bootstrap intervals over the excerpts.",
)


SHUFFLES = 20
PROMPT_TITLES = ("plates, keys, ...", "John, Alex, ...", "tennis, baseball, ...", "woman or king")


def measure_next_words(workspace: LanguageWorkspace, row: RowKey) -> Json:
    """The five most likely next tokens after each prompt, with the partition that set each of them."""
    model = workspace.load(workspace.trained_model(*row))
    results = probe({"model": model}, workspace.tokenizer, PROMPTS, k=5).found
    return {
        title: ", ".join(f"{word.text.strip()} {word.probability:.3f} ({word.partition})" for word in result.words)
        for title, result in zip(PROMPT_TITLES, results, strict=True)
    } | {"options": listed_options(model, workspace.tokenizer)}


def listed_options(
    model: LanguageModel, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt] = PROMPTS
) -> list[Json]:
    """The options of each prompt in two orders, with the probability that each comes next."""
    return [
        {"prompt": prompt.text(order), "options": order, "probabilities": [exp(log_p[option]) for option in order]}
        for prompt, tried in tried_orders(model, tokenizer, prompts, shuffles=2).items()
        for order, log_p in tried
    ]


def plot_options(rows: Sequence[ResultRow], path: Path, paper: PaperPoints | None = None) -> None:
    """Every prompt in two orders, a panel each, with the bars of all methods; of the first seed and backbone."""
    shown = [row for row in rows if (row.size, row.seed) == (rows[0].size, rows[0].seed) and "options" in row.metrics]
    if shown:
        draw_options({RowSpec.parse(row.method).title: row.metrics["options"] for row in shown}, path)


def draw_options(by_model: Mapping[str, Sequence[Json]], path: Path) -> None:
    """The panels of `listed_options` for several models, as one picture."""
    from unbottle.report.panels import OptionPanel, option_panels

    contents = [
        OptionPanel(
            title=textwrap.fill(panels[0]["prompt"], 60),
            options=panels[0]["options"],
            probabilities={name: panel["probabilities"] for name, panel in zip(by_model, panels, strict=True)},
        )
        for panels in zip(*by_model.values(), strict=True)
    ]
    option_panels(contents, path, title="Next words after lists, each in two orders (tb:context_example, fig:gpt-3)")


def measure_order_bias(workspace: LanguageWorkspace, row: RowKey) -> Json:
    return order_metrics(workspace.load(workspace.trained_model(*row)), workspace.tokenizer, SHUFFLES)


def order_metrics(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, shuffles: int) -> Json:
    """Means over the prompts whose list should be repeated; the mass on the list of the one that should not."""
    rows = order_bias(model, tokenizer, PROMPTS, shuffles=shuffles, seed=0).rows
    listed, new = [row for row in rows if row.repeats], [row for row in rows if not row.repeats]
    return {
        "evenness": sum(row.evenness for row in listed) / len(listed),
        "mass": sum(row.mass for row in listed) / len(listed),
        "changes": sum(row.winner_changes for row in listed) / len(listed),
        "repeated": sum(row.mass for row in new) / len(new),
    }


TABLE4 = Experiment(
    name="table4",
    title="The most likely next words after the paper's prompts (tb:context_example)",
    methods=paper.EXAMPLE_METHODS,
    measure=measure_next_words,
    columns=tuple(Column(title, title) for title in PROMPT_TITLES),
    plot=plot_options,
    time="preset cpu: seconds, after table1 has trained the models",
    note="In parentheses: the partition that set the word's logit. Words are tokens, the first seed is shown.",
)
ORDER_BIAS = Experiment(
    name="order-bias",
    title="Does the order of a list matter? (limitations, fig:gpt-3)",
    methods=paper.EXAMPLE_METHODS,
    measure=measure_order_bias,
    columns=(
        Column("Evenness", "evenness", 3),
        Column("Mass on the list", "mass", 3),
        Column("Winner changes", "changes", 3),
        Column("Mass repeated", "repeated", 3),
    ),
    plot=partial(
        metric_panels,
        title="Does the order of a list matter?",
        metrics={
            "evenness": ("evenness", ()),
            "mass on the list": ("mass", ()),
            "winner changes": ("changes", ()),
            "mass repeated": ("repeated", ()),
        },
        baseline=None,
    ),
    time="preset cpu: seconds, after table1 has trained the models",
    note=f"Each list in {SHUFFLES} orders. Evenness: entropy over the options divided by log n, 1 if all are alike. "
    "Winner changes: share of the orders in which another option is the most likely one. Mass repeated: what the third "
    "prompt, a list that should go on with something new, gives to what was listed. The paper shows this for GPT-3.5 "
    "in figures.",
)
