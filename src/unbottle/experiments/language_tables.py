"""The paper's experiments on language models: perplexity (tb:perplexity, tb:reranker), size (fig:gpt_loss_size),
ambiguous contexts (tb:analogy), text completion (tb:gpt2_gen_other), next words (tb:context_example), order of lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.timing import median_times
from unbottle.data.analogy import KINDS, RELATIONS, SIZE, Analogy, WordPairs, analogies, public_analogies, training_text
from unbottle.eval import perplexity
from unbottle.eval.analogy import analogy
from unbottle.eval.bootstrap import RatioStatistic, Resampling, interval
from unbottle.eval.completion import FILE as COMPLETIONS
from unbottle.eval.completion import CompletionConfig, CompletionRow, completion, read_completions, scores
from unbottle.eval.next_words import PROMPTS, probe
from unbottle.eval.order_bias import order_bias
from unbottle.eval.proper_nouns import Tagger
from unbottle.experiments import paper
from unbottle.experiments.corpora import Sentences
from unbottle.experiments.figures import MetricPanels, listed_options, plot_options, plot_size_curve
from unbottle.experiments.paper import ANY, SMALL
from unbottle.experiments.presets import Json
from unbottle.experiments.results import INTERVALS, TAGGER, Column, Experiment, ResultRow, RowKey, of_backbone
from unbottle.experiments.workspace import LanguageWorkspace

CURVE = ("softmax", "softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")
GROUPS = ("context", "top", "elsewhere")  # of tokens, in eval.perplexity
ROUNDS = 15
COMPLETED = 20_000_000  # tokens of the test part, at most, that texts to complete are drawn from


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
    """Time of a forward pass over a batch as a ratio to the first row of the backbone.

    With several backbones, the keys name them.
    """
    length, batch = workspace.preset.rows.length, workspace.preset.rows.batch
    ids = torch.from_numpy(workspace.corpus.test[: length * batch].astype("int64")).view(-1, length)
    sizes = dict.fromkeys(row.size for row in rows)
    ratios: Json = {}
    for size in sizes:
        measured = [row for row in rows if row.size == size and not row.is_broken]
        models = {
            row.method: workspace.load(workspace.trained_model(*row.key))
            for row in measured
            if row.seed == measured[0].seed
        }
        times = forward_times(models, {"input_ids": ids})
        for method, seconds in times.items():
            key = method if len(sizes) == 1 else of_backbone(size, method)
            ratios[key] = {"time": seconds / times[measured[0].method]}
    return ratios


def forward_times(models: Mapping[str, PreTrainedModel], inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """Seconds of a forward pass of models that take turns: CPU time of all threads; on a GPU, time by the clock."""
    devices = {model.device for model in models.values()}
    placed = {device: {name: tensor.to(device) for name, tensor in inputs.items()} for device in devices}

    def forward(model: PreTrainedModel) -> None:
        with torch.no_grad():
            model(**placed[model.device], use_cache=False)
        if model.device.type == "cuda":
            torch.cuda.synchronize()

    times = median_times({name: partial(forward, model) for name, model in models.items()}, repeats=ROUNDS)
    return {name: time.wall if models[name].device.type == "cuda" else time.cpu for name, time in times.items()}


TABLE1 = Experiment(
    name="table1",
    title="Test perplexity of output layers on the same backbone (tb:perplexity)",
    methods=tuple(paper.PERPLEXITY[ANY][SMALL]),
    measure=partial(measure_perplexity, part="test"),
    columns=(
        Column("Size", "size"),
        Column("Time ratio", "time"),
        Column("Perplexity", "perplexity"),
        Column("in context", "context"),
        Column("in W(100)", "top"),
        Column("elsewhere", "elsewhere"),
    ),
    paper=paper.PERPLEXITY,
    column_data={"OWT": "openwebtext", "Wiki": "wikipedia"},
    finish=time_ratios,
    sizes=lambda preset: preset.table or [*preset.backbones][:1],
    plot=MetricPanels(
        "Test perplexity (tb:perplexity)",
        {"perplexity": ("perplexity", ("OWT", "Wiki")), "of words of the context": ("context", ())},
    ),
    note="Perplexity in context, in W(100), elsewhere: by where the true next token was. W(100) is that of the plain "
    "backbone, so that all rows have the same groups of tokens. Time: CPU time of a forward pass as a ratio to the "
    "first row, measured in turns.",
)
TABLE2 = Experiment(
    name="table2",
    title="Word-by-word reranker, validation perplexity after a short training (tb:reranker)",
    methods=tuple(paper.RERANKER[ANY][SMALL]),
    measure=lambda workspace, row: measure_perplexity(
        workspace,
        row,
        part="valid",
        share=workspace.preset.reranker_share,
        limit=workspace.preset.reranker_tokens,
    ),
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    paper=paper.RERANKER,
    plot=MetricPanels("Word-by-word reranker (tb:reranker)", {"validation perplexity": ("perplexity", ("Wiki",))}),
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
    sizes=lambda preset: [*preset.backbones],
    plot=partial(plot_size_curve, title="GPT-2: loss against size (fig:gpt_loss_size)", label="loss on the test text"),
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
    plot=MetricPanels(
        "k of the reranker partitions (the paper chose 20,100)",
        {"validation perplexity": ("perplexity", ())},
        baseline="softmax+cpr:20,100+mi",
        left_out=("softmax+mi",),
    ),
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
    model = _train_on_contexts(workspace, row, texts, group=f"analogy-public{name}", freeze_output=True)
    return _analogy_metrics(workspace, model, items, "token_perplexity") | {"pairs": name.lstrip("-") or "own"}


def measure_own_analogy(
    workspace: LanguageWorkspace, row: RowKey, *, pairs: WordPairs | None = None, name: str = ""
) -> Json:
    """The same with our own templates: other words in the test, all of the text has a loss, perplexity per word."""
    items = analogies(seed=0, pairs=pairs, size=workspace.preset.analogies or SIZE)
    texts = training_text([item for item in items if item.part == "train"], seed=0)
    model = _train_on_contexts(workspace, row, texts, group=f"analogy{name}")
    return _analogy_metrics(workspace, model, items, "perplexity")


def _train_on_contexts(
    workspace: LanguageWorkspace,
    row: RowKey,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    *,
    group: str,
    freeze_output: bool = False,
) -> PreTrainedModel:
    folder = workspace.train_row(
        *row,
        data=lambda: Sentences(texts, workspace.tokenizer),
        settings=workspace.preset.row_settings(row.size),
        group=group,
        freeze_output=freeze_output,
    )
    return workspace.load(folder)


def _analogy_metrics(
    workspace: LanguageWorkspace, model: PreTrainedModel, items: Sequence[Analogy], kind_of_perplexity: str
) -> Json:
    valid, test = (
        analogy(model, workspace.tokenizer, [item for item in items if item.part == part]) for part in ("valid", "test")
    )
    rows = {f"{kind} valid": valid.row(kind) for kind in KINDS}
    rows |= {f"{kind} {relation}": test.row(kind, relation) for kind in KINDS for relation in RELATIONS}
    return {
        **{name: getattr(row, kind_of_perplexity) for name, row in rows.items()},
        "floor": test.overall.token_floor,
        "answers": test.overall.answer_mass,
        "distractors": test.overall.distractor_mass,
    }


ANALOGY = Experiment(
    name="analogy",
    title="Perplexity of two equally likely words after ambiguous contexts (tb:analogy)",
    methods=tuple(paper.ANALOGY[ANY][SMALL]),
    measure=measure_analogy,
    columns=(
        *(Column(title, title) for title in paper.COLUMNS["analogy"]),
        Column("lowest possible", "floor"),
        Column("answers", "answers", 3),
        Column("distractors", "distractors", 3),
    ),
    paper=paper.ANALOGY,
    plot=MetricPanels(
        "Ambiguous contexts: perplexity per token of the answer (tb:analogy)",
        {title: (title, (title,)) for title in paper.COLUMNS["analogy"]},
        baseline=None,
        log=True,
    ),
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
    paper={},
    plot=MetricPanels(
        "Ambiguous contexts of our own: perplexity of the whole answer",
        {title: (title, ()) for title in paper.COLUMNS["analogy"]},
        baseline=None,
        log=True,
    ),
    note="Perplexity of the whole answer under its true distribution, 1/2 for each word: no model can be below 2. 48 "
    "templates; no word of a part is in another. The paper's numbers are per token and of other templates, so they are "
    "not shown. Answers, distractors: mean probability of the two answers, of the two other words of the "
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
    tag = workspace.name_tagger
    result = completion(model, tokenizer, [text], tagger=tag, config=config, output=output, report=report)
    return {
        **result.scores["all"],
        INTERVALS: completion_intervals(output / COMPLETIONS, tag, seed=row.seed),
        TAGGER: result.tagger,
        "continuations": result.continuations,
    }


def completion_intervals(path: Path, tag: Tagger, *, seed: int) -> dict[str, tuple[float, float] | None]:
    """95 % bootstrap intervals of the metrics, over the excerpts: continuations of one excerpt stay together."""
    _, rows = read_completions(path)
    by_excerpt: dict[int, list[CompletionRow]] = {}
    for row in rows:
        by_excerpt.setdefault(row["sample"], []).append(row)
    excerpts = [scores(members, tag) for members in by_excerpt.values()]
    return {
        name: interval(RatioStatistic.mean([excerpt[name] for excerpt in excerpts]), Resampling(seed=seed))
        for name in ("R1", "R1C", "R1P", "R1PC", "R2")
    }


TABLE3 = Experiment(
    name="table3",
    title="Text completion (tb:gpt2_gen_other, of which tb:dynamic_partition_rouge_1 is a part)",
    methods=tuple(paper.COMPLETION[ANY][SMALL]),
    measure=measure_completion,
    columns=tuple(
        Column(name, name, 3 if name in ("P Ratio", "CIDEr", "NIST") else 2) for name in paper.COLUMNS["completion"]
    ),
    paper=paper.COMPLETION,
    plot=MetricPanels(
        "Text completion (tb:gpt2_gen_other)",
        {name: (name, (name,)) for name in paper.COLUMNS["completion"]},
        plain=("R1P", "R1PC", "P Ratio"),
    ),
    tagged=True,
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


def order_metrics(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, shuffles: int) -> Json:
    """Means over the prompts whose list should be repeated; the mass on the list of the one that should not."""
    rows = order_bias(model, tokenizer, PROMPTS, shuffles=shuffles, seed=0).rows
    listed = [row for row in rows if row.repeats]
    return {
        "evenness": fmean(row.evenness for row in listed),
        "mass": fmean(row.mass for row in listed),
        "changes": fmean(row.winner_changes for row in listed),
        "repeated": fmean(row.mass for row in rows if not row.repeats),
    }


TABLE4 = Experiment(
    name="table4",
    title="The most likely next words after the paper's prompts (tb:context_example)",
    methods=paper.EXAMPLE_METHODS,
    measure=measure_next_words,
    columns=tuple(Column(title, title) for title in PROMPT_TITLES),
    plot=plot_options,
    note="In parentheses: the partition that set the word's logit. Words are tokens, the first seed is shown. The "
    f"paper's words, of GPT-2 small, in bold those that it calls reasonable:\n\n{paper.EXAMPLE_WORDS.markdown()}",
)
ORDER_COLUMNS = (
    Column("Evenness", "evenness", 3),
    Column("Mass on the list", "mass", 3),
    Column("Winner changes", "changes", 3),
    Column("Mass repeated", "repeated", 3),
)
ORDER_BIAS = Experiment(
    name="order-bias",
    title="Does the order of a list matter? (limitations, fig:gpt-3)",
    methods=paper.EXAMPLE_METHODS,
    measure=lambda workspace, row: order_metrics(
        workspace.load(workspace.trained_model(*row)), workspace.tokenizer, SHUFFLES
    ),
    columns=ORDER_COLUMNS,
    plot=MetricPanels(
        "Does the order of a list matter?",
        {column.title.lower(): (column.key, ()) for column in ORDER_COLUMNS},
        baseline=None,
    ),
    note=f"Each list in {SHUFFLES} orders. Evenness: entropy over the options divided by log n, 1 if all are alike. "
    "Winner changes: share of the orders in which another option is the most likely one. Mass repeated: what the third "
    "prompt, a list that should go on with something new, gives to what was listed. The paper shows this for GPT-3.5 "
    "in figures.",
)
