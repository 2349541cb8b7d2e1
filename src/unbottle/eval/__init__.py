"""What a model predicts and generates, measured."""

from unbottle.eval.analogy import AnalogyResult, analogy
from unbottle.eval.completion import Completion, Protocol, completion, rescore
from unbottle.eval.generation import Decoding, Prediction, continue_prompts, predictions
from unbottle.eval.next_words import PROMPTS, Probe, Prompt, probe
from unbottle.eval.order_bias import OrderBias, order_bias
from unbottle.eval.perplexity import Overlapping, Perplexity, perplexity
from unbottle.eval.proper_nouns import tagger
from unbottle.eval.summary_files import Columns, Documents, Examples, in_common, write_summaries
from unbottle.eval.summary_loss import SummaryLoss, summary_loss
from unbottle.eval.summary_scores import (
    Comparison,
    Options,
    Score,
    Scores,
    compare_summaries,
    score_examples,
    summary_scores,
)

__all__ = [
    "PROMPTS",
    "AnalogyResult",
    "Columns",
    "Comparison",
    "Completion",
    "Decoding",
    "Documents",
    "Examples",
    "Options",
    "OrderBias",
    "Overlapping",
    "Perplexity",
    "Prediction",
    "Probe",
    "Prompt",
    "Protocol",
    "Score",
    "Scores",
    "SummaryLoss",
    "analogy",
    "compare_summaries",
    "completion",
    "continue_prompts",
    "in_common",
    "order_bias",
    "perplexity",
    "predictions",
    "probe",
    "rescore",
    "score_examples",
    "summary_loss",
    "summary_scores",
    "tagger",
    "write_summaries",
]
