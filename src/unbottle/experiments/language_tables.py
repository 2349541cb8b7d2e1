"""Tables of perplexity: table 1 (tb:perplexity), table 2 (tb:reranker) and the size curve (fig:gpt_loss_size).

Ambiguous contexts: king or woman, king or queen (tb:analogy).

Text completion: ROUGE, proper nouns, CIDEr and NIST of what is generated (tb:gpt2_gen_other).

Next words after the paper's prompts (tb:context_example), and whether the order of a list matters (limitations).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unbottle.data.analogy import KINDS, RELATIONS, analogies, training_text
from unbottle.eval import perplexity
from unbottle.eval.analogy import analogy
from unbottle.eval.completion import Protocol, completion
from unbottle.eval.next_words import PROMPTS, probe
from unbottle.eval.order_bias import order_bias
from unbottle.eval.proper_nouns import tagger
from unbottle.experiments import paper
from unbottle.experiments.corpora import Sentences
from unbottle.experiments.results import Column, Experiment, Row, every_size
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.runner import cpu_medians
from unbottle.experiments.workspace import Lab

CURVE = ("softmax", "softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")
WHERE = ("context", "top", "elsewhere")


def measure_perplexity(lab: Lab, method: str, seed: int, size: str, *, part: str, share: float = 1.0) -> dict[str, Any]:
    """Train, then the perplexity of a part. Groups are those of the plain backbone, the same for all methods."""
    limit = lab.preset.test_tokens if part == "test" else lab.preset.reranker_tokens
    model = lab.load(lab.trained(method, seed, size=size, share=share))
    found = perplexity(model, lab.windows(part, limit), reference=lab.load(Path(lab.base(size)))).to_dict()
    groups = {name: found["groups"][name]["perplexity"] for name in WHERE}
    return {
        "size": sum(parameter.numel() for parameter in model.parameters()) / 1e6,
        "loss": found["loss"],
        "perplexity": found["perplexity"],
        "tokens": found["tokens"],
        **groups,
        "windows": found["windows"],
    }


def times(lab: Lab, rows: Sequence[Row]) -> dict[str, Any]:
    """Time of a forward pass of a batch, all methods in turns, as a ratio to the first one."""
    seed = rows[0].seed
    size = rows[0].size
    models = {row.method: lab.load(lab.trained(row.method, seed, size=size)) for row in rows if row.seed == seed}
    length, batch = lab.preset.rows.length, lab.preset.rows.batch
    ids = torch.from_numpy(lab.corpus.test[: length * batch].astype("int64")).view(-1, length)

    def forward(model: Any) -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    medians = cpu_medians({method: partial(forward, model) for method, model in models.items()})
    first = medians[rows[0].method]
    return {method: {"time": seconds / first} for method, seconds in medians.items()}


def dots(rows: Sequence[Row], path: Path, *, mark: str = "Softmax + Mi") -> None:
    from unbottle.report.plots import dots as draw
    from unbottle.tables import Estimate

    values: dict[str, list[float]] = {}
    for row in rows:
        if "perplexity" in row.found:  # or its training broke
            values.setdefault(Variant.parse(row.method).title, []).append(row.found["perplexity"])
    draw({name: Estimate.of(each) for name, each in values.items()}, path, label="perplexity", mark=mark)


def curve(rows: Sequence[Row], path: Path) -> None:
    from unbottle.report.plots import curves
    from unbottle.tables import Estimate

    points: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        line = points.setdefault(Variant.parse(row.method).title, {})
        line.setdefault(row.found["size"], []).append(row.found["loss"])
    lines = {name: [(size, Estimate.of(each)) for size, each in sorted(line.items())] for name, line in points.items()}
    curves(lines, path, x="parameters (millions)", y="loss on the test text")


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
    finish=times,
    plot=dots,
    note="Perplexity in context, in W(100), elsewhere: by where the true next token was. W(100) is that of the plain "
    "backbone, so that all rows are split the same way. Time: CPU time of a forward pass, in turns, "
    "as a ratio to the first row.",
)
TABLE2 = Experiment(
    name="table2",
    title="Word-by-word reranker, validation perplexity after a short training (tb:reranker)",
    methods=tuple(paper.RERANKER),
    measure=lambda lab, method, seed, size: measure_perplexity(
        lab, method, seed, size, part="valid", share=lab.preset.reranker_share
    ),
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    paper_columns=paper.RERANKER_COLUMNS,
    paper={"GPT-2 Small": paper.RERANKER},
    plot=dots,
)
SIZE_CURVE = Experiment(
    name="size-curve",
    title="Loss against size (fig:gpt_loss_size)",
    methods=CURVE,
    measure=partial(measure_perplexity, part="test"),
    columns=(Column("Size", "size"), Column("Loss", "loss", 3)),
    sizes=every_size,
    plot=curve,
    note="The paper shows this as a figure without numbers: its lines fall with size, CPR's lies below those of MoS.",
)


def measure_analogy(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
    """Train on contexts with other words, then the perplexity of the two answers."""
    items = analogies(seed=0, size=lab.preset.analogies)
    parts = {part: [item for item in items if item.part == part] for part in ("train", "valid", "test")}
    texts = training_text(parts["train"], seed=0)
    model = lab.load(lab.trained_on(Sentences(texts, lab.tokenizer), method, seed, "analogy", size=size))
    found = {part: analogy(model, lab.tokenizer, parts[part]) for part in ("valid", "test")}
    numbers = {f"{kind} valid": found["valid"].row(kind).perplexity for kind in KINDS}
    for kind in KINDS:
        for relation in RELATIONS:
            numbers[f"{kind} {relation}"] = found["test"].row(kind, relation).perplexity
    overall = found["test"].overall
    return numbers | {"answers": overall.answer_mass, "distractors": overall.distractor_mass}


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


def measure_completion(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
    """The paper's protocol on sequences of the test text; the same ones for every method."""
    folder = lab.trained(method, seed, size=size)
    protocol = Protocol(samples=lab.preset.sequences, seed=seed, prompts=lab.preset.prompts)
    text = lab.tokenizer.decode(lab.corpus.test.tolist())
    found = completion(
        lab.load(folder), lab.tokenizer, [text], tagger=tagger(), protocol=protocol, output=folder.parent / "completion"
    )
    return {**found.scores["all"], "tagger": found.tagger, "continuations": found.continuations}


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
FIRST_WORDS = ("plates, keys, ...", "John, Alex, ...", "tennis, baseball, ...", "woman or king")


def next_words(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
    """The five most likely next tokens after each prompt, with the partition that set each."""
    found = probe({"model": lab.load(lab.trained(method, seed, size=size))}, lab.tokenizer, PROMPTS, k=5).found
    return {
        title: ", ".join(f"{word.text.strip()} {word.probability:.3f} ({word.partition})" for word in probed.words)
        for title, probed in zip(FIRST_WORDS, found, strict=True)
    }


def measure_order(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
    return order_of(lab.load(lab.trained(method, seed, size=size)), lab.tokenizer, SHUFFLES)


def order_of(model: Any, tokenizer: Any, shuffles: int) -> dict[str, Any]:
    """Means over the prompts whose list should be repeated; the mass on the list of the one that should not."""
    rows = order_bias(model, tokenizer, PROMPTS, shuffles=shuffles, seed=0).rows
    listed, new = [row for row in rows if row.repeats], [row for row in rows if not row.repeats]
    mean = {name: sum(getattr(row, name) for row in listed) / len(listed) for name in ("evenness", "mass")}
    changes = sum(row.winner_changes for row in listed) / len(listed)
    return {**mean, "changes": changes, "repeated": sum(row.mass for row in new) / len(new)}


TABLE4 = Experiment(
    name="table4",
    title="The most likely next words after the paper's prompts (tb:context_example)",
    methods=paper.EXAMPLE_METHODS,
    measure=next_words,
    columns=tuple(Column(title, title) for title in FIRST_WORDS),
    note="In parentheses: the partition that set the word's logit. Words are tokens, the first seed is shown.",
)
ORDER_BIAS = Experiment(
    name="order-bias",
    title="Does the order of a list matter? (limitations, fig:gpt-3)",
    methods=paper.EXAMPLE_METHODS,
    measure=measure_order,
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
