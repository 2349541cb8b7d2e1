"""Experiments: the paper's tables, comparisons on a model of one's own, and the demo.

EXPERIMENTS is plain data, because the command line reads it before torch is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbottle.experiments.results import Experiment

EXPERIMENTS = {  # name: where it is defined, what it measures, time per row with preset cpu on two cores
    "table1": ("language_tables:TABLE1", "perplexity of fifteen output layers", "4 minutes"),
    "table2": ("language_tables:TABLE2", "word-by-word reranker", "30 minutes (wbwR) or 2"),
    "table3": ("language_tables:TABLE3", "text completion", "10 minutes"),
    "table4": ("language_tables:TABLE4", "next words after three prompts", "seconds, after table1"),
    "analogy": ("language_tables:ANALOGY", "ambiguous contexts, by the paper's protocol", "3 minutes"),
    "analogy-own": ("language_tables:ANALOGY_OWN", "the same with our own templates", "3 minutes"),
    "size-curve": ("language_tables:SIZE_CURVE", "loss against size", "3 to 8 minutes"),
    "sweep-k": ("language_tables:SWEEP_K", "how many words to rerank", "4 minutes"),
    "order-bias": ("language_tables:ORDER_BIAS", "does the order of a list matter?", "seconds, after table1"),
    "summarization": ("summary_tables:SUMMARIZATION", "T5 and BART with ten output layers", "5 minutes"),
    "t5-size-curve": ("summary_tables:T5_SIZE_CURVE", "loss of T5 against size", "4 minutes"),
}


def load_experiment(name: str) -> Experiment:
    """An experiment by its name."""
    module, _, variable = EXPERIMENTS[name][0].partition(":")
    experiment: Experiment = getattr(import_module(f"{__name__}.{module}"), variable)
    return experiment
