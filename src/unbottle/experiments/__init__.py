"""Experiments: the paper's tables, comparisons on a model of one's own, and the demo.

EXPERIMENTS is plain data, because the command line reads it before torch is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unbottle.experiments.results import Experiment


class Entry(NamedTuple):
    """Where an experiment is defined, what it measures, its time with preset cpu on two cores, what it needs."""

    place: str
    about: str
    time: str
    needs: str = ""


METRICS = "unbottle[eval]"
EXPERIMENTS = {
    "table1": Entry("language_tables:TABLE1", "perplexity of output layers", "15 rows of 3 minutes"),
    "table2": Entry(
        "language_tables:TABLE2", "word-by-word reranker", "2 rows, 1 minute each, and 2 with wbwR, 15 minutes each"
    ),
    "table3": Entry("language_tables:TABLE3", "text completion", "15 rows, 5 minutes each, or 2 after table1", METRICS),
    "table4": Entry("language_tables:TABLE4", "next words after three prompts", "4 rows of seconds, after table1"),
    "analogy": Entry("language_tables:ANALOGY", "ambiguous contexts, by the paper's protocol", "4 rows of 3 minutes"),
    "analogy-own": Entry("language_tables:ANALOGY_OWN", "the same with our own templates", "4 rows of 3 minutes"),
    "size-curve": Entry("language_tables:SIZE_CURVE", "loss against size", "15 rows of 2 to 5 minutes"),
    "sweep-k": Entry("language_tables:SWEEP_K", "how many words to rerank", "11 rows of 3 minutes"),
    "order-bias": Entry(
        "language_tables:ORDER_BIAS", "does the order of a list matter?", "4 rows of seconds, after table1"
    ),
    "summarization": Entry(
        "summary_tables:SUMMARIZATION", "T5 and BART with ten output layers", "20 rows of 2 minutes", METRICS
    ),
    "t5-size-curve": Entry("summary_tables:T5_SIZE_CURVE", "loss of T5 against size", "18 rows of 1 minute"),
}


def load_experiment(name: str) -> Experiment:
    """An experiment by its name."""
    module, _, variable = EXPERIMENTS[name].place.partition(":")
    experiment: Experiment = getattr(import_module(f"{__name__}.{module}"), variable)
    return experiment
