"""Next words after the paper's prompts (tb:context_example), and whether the order of a list matters (limitations)."""

from __future__ import annotations

from typing import Any

from unbottle.eval.order_bias import order_bias
from unbottle.eval.probe import probe
from unbottle.eval.prompt import PROMPTS
from unbottle.recipes import paper
from unbottle.recipes.experiment import Column, Experiment
from unbottle.recipes.lab import Lab

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
