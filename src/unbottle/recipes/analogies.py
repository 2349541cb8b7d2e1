"""Ambiguous contexts: king or woman, king or queen (tb:analogy)."""

from __future__ import annotations

from typing import Any

from unbottle.data.analogy import KINDS, RELATIONS, analogies, training_text
from unbottle.eval.analogy import analogy
from unbottle.recipes import paper
from unbottle.recipes.experiment import Column, Experiment
from unbottle.recipes.lab import Lab
from unbottle.recipes.sentences import Sentences


def measure(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
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
    measure=measure,
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
