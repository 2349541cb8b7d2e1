"""The paper's experiments on language models: perplexity (tb:perplexity, tb:reranker), size (fig:gpt_loss_size),
ambiguous contexts (tb:analogy), text completion (tb:gpt2_gen_other), next words (tb:context_example), order of lists.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.timing import SystemClock, Times, Work, take_turns
from unbottle.data.analogy import KINDS, RELATIONS, analogies, training_text
from unbottle.eval import perplexity
from unbottle.eval.analogy import analogy
from unbottle.eval.completion import CompletionConfig, completion
from unbottle.eval.next_words import PROMPTS, probe
from unbottle.eval.order_bias import order_bias
from unbottle.eval.proper_nouns import tagger
from unbottle.experiments import paper
from unbottle.experiments.corpora import Sentences
from unbottle.experiments.presets import Json
from unbottle.experiments.results import Column, Experiment, ResultRow, RowKey, every_size
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.workspace import LanguageWorkspace
from unbottle.tables import Estimate

CURVE = ("softmax", "softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")
GROUPS = ("context", "top", "elsewhere")  # of tokens, in eval.perplexity
ROUNDS = 15


def measure_perplexity(workspace: LanguageWorkspace, row: RowKey, *, part: str, share: float = 1.0) -> Json:
    """Train a row, then compute the perplexity of a part of the text, by groups of tokens.

    W(k) is that of the plain backbone, so that the groups of all methods have the same tokens.
    """
    limit = workspace.preset.test_tokens if part == "test" else workspace.preset.reranker_tokens
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
    """CPU time of a forward pass over a batch, as a ratio to the first row's."""
    rows = [row for row in rows if not row.is_broken]
    if not rows:
        return {}
    first = rows[0]
    models = {row.method: workspace.load(workspace.trained_model(*row.key)) for row in rows if row.seed == first.seed}
    length, batch = workspace.preset.rows.length, workspace.preset.rows.batch
    ids = torch.from_numpy(workspace.corpus.test[: length * batch].astype("int64")).view(-1, length)

    def forward(model: PreTrainedModel) -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    medians = cpu_medians({method: partial(forward, model) for method, model in models.items()})
    return {method: {"time": seconds / medians[first.method]} for method, seconds in medians.items()}


def cpu_medians(runs: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """CPU seconds of all threads: the median of several rounds, in each of which every function has its turn."""
    times: Times = {}
    works = {name: Work(lambda: None, run) for name, run in runs.items()}
    take_turns(works, times, repeats=ROUNDS, clock=SystemClock(), order=random.Random(0))
    return {name: sorted(time.cpu for time in rounds)[len(rounds) // 2] for name, rounds in times.items()}


def plot_perplexities(
    rows: Sequence[ResultRow],
    path: Path,
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


def plot_size_curve(rows: Sequence[ResultRow], path: Path) -> None:
    """Loss against the number of parameters, a line for each method."""
    from unbottle.report import plots

    points: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        line = points.setdefault(RowSpec.parse(row.method).title, {})
        line.setdefault(row.metrics["size"], []).append(row.metrics["loss"])
    lines = {
        name: [(size, Estimate.of(losses)) for size, losses in sorted(line.items())] for name, line in points.items()
    }
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
    finish=time_ratios,
    plot=plot_perplexities,
    note="Perplexity in context, in W(100), elsewhere: by where the true next token was. W(100) is that of the plain "
    "backbone, so that all rows have the same groups of tokens. Time: CPU time of a forward pass as a ratio to the "
    "first row, measured in turns.",
)
TABLE2 = Experiment(
    name="table2",
    title="Word-by-word reranker, validation perplexity after a short training (tb:reranker)",
    methods=tuple(paper.RERANKER),
    measure=lambda workspace, row: measure_perplexity(
        workspace, row, part="valid", share=workspace.preset.reranker_share
    ),
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    paper_columns=paper.RERANKER_COLUMNS,
    paper={"GPT-2 Small": paper.RERANKER},
    plot=plot_perplexities,
)
SIZE_CURVE = Experiment(
    name="size-curve",
    title="Loss against size (fig:gpt_loss_size)",
    methods=CURVE,
    measure=partial(measure_perplexity, part="test"),
    columns=(Column("Size", "size"), Column("Loss", "loss", 3)),
    sizes=every_size,
    plot=plot_size_curve,
    note="The paper shows this as a figure without numbers: its lines fall with size, CPR's lies below those of MoS.",
)


def measure_analogy(workspace: LanguageWorkspace, row: RowKey) -> Json:
    """Train on ambiguous contexts with other words, then compute the perplexity of the two answers."""
    items = analogies(seed=0, size=workspace.preset.analogies)
    parts = {part: [item for item in items if item.part == part] for part in ("train", "valid", "test")}
    texts = training_text(parts["train"], seed=0)
    folder = workspace.train_row(
        *row, data=lambda: Sentences(texts, workspace.tokenizer), settings=workspace.preset.rows, group="analogy"
    )
    model = workspace.load(folder)
    valid, test = (analogy(model, workspace.tokenizer, parts[part]) for part in ("valid", "test"))
    metrics = {f"{kind} valid": valid.row(kind).perplexity for kind in KINDS}
    metrics |= {f"{kind} {relation}": test.row(kind, relation).perplexity for kind in KINDS for relation in RELATIONS}
    return metrics | {"answers": test.overall.answer_mass, "distractors": test.overall.distractor_mass}


ANALOGY = Experiment(
    name="analogy",
    title="Perplexity of two equally likely words after ambiguous contexts (tb:analogy)",
    methods=tuple(paper.ANALOGY),
    measure=measure_analogy,
    columns=(
        *(Column(title, title) for title in paper.ANALOGY_COLUMNS),
        Column("answers", "answers", 3),
        Column("distractors", "distractors", 3),
    ),
    paper_columns=paper.ANALOGY_COLUMNS,
    paper={"GPT-2 Small": paper.ANALOGY},
    note="Perplexity of the whole answer under its true distribution, 1/2 for each word: no model can be below 2. The "
    "paper's is below 2 in places, so it is an average over more tokens; compare the order of rows, not the "
    "numbers. Answers, distractors: mean probability of the two answers, of the two other words of the parallelogram.",
)


def measure_completion(workspace: LanguageWorkspace, row: RowKey) -> Json:
    """The paper's protocol of text completion, on the same sequences of the test part for every method."""
    folder, tokenizer = workspace.trained_model(*row), workspace.tokenizer
    config = CompletionConfig(samples=workspace.preset.sequences, seed=row.seed, prompts=workspace.preset.prompts)
    texts, output = [str(tokenizer.decode(workspace.corpus.test.tolist()))], folder.parent / "completion"
    model = workspace.load(folder)
    result = completion(model, tokenizer, texts, tagger=tagger(), config=config, output=output)
    return {**result.scores["all"], "tagger": result.tagger, "continuations": result.continuations}


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
    }


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
    note=f"Each list in {SHUFFLES} orders. Evenness: entropy over the options divided by log n, 1 if all are alike. "
    "Winner changes: share of the orders in which another option is the most likely one. Mass repeated: what the third "
    "prompt, a list that should go on with something new, gives to what was listed. The paper shows this for GPT-3.5 "
    "in figures.",
)
