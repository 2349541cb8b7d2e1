"""Evaluation: perplexity, generated texts, summaries, analogies and next-word predictions."""

from unbottle.eval.analogy import AnalogyResult, analogy
from unbottle.eval.completion import Completion, CompletionConfig, completion, rescore
from unbottle.eval.generation import Decoding, Documents, Prediction, continue_prompts, predictions, write_summaries
from unbottle.eval.metrics.metric import SummaryScoreOptions
from unbottle.eval.next_words import PROMPTS, Probe, Prompt, probe
from unbottle.eval.order_bias import OrderBias, order_bias
from unbottle.eval.perplexity import Overlapping, Perplexity, SummaryLoss, perplexity, summary_loss
from unbottle.eval.proper_nouns import tagger
from unbottle.eval.summary_scores import (
    Columns,
    Examples,
    MetricComparison,
    SummaryScores,
    compare_summaries,
    in_common,
    score_examples,
    summary_scores,
)

__all__ = [
    "PROMPTS",
    "AnalogyResult",
    "Columns",
    "Completion",
    "CompletionConfig",
    "Decoding",
    "Documents",
    "Examples",
    "MetricComparison",
    "OrderBias",
    "Overlapping",
    "Perplexity",
    "Prediction",
    "Probe",
    "Prompt",
    "SummaryLoss",
    "SummaryScoreOptions",
    "SummaryScores",
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
