"""What a model predicts and generates, measured."""

from unbottle.eval.analogy import AnalogyResult, analogy
from unbottle.eval.completion import Completion, Protocol, completion, rescore
from unbottle.eval.decoding import Decoding, Prediction
from unbottle.eval.generate import predictions
from unbottle.eval.going_on import going_on
from unbottle.eval.order_bias import OrderBias, order_bias
from unbottle.eval.overlapping import Overlapping
from unbottle.eval.perplexity import Perplexity, perplexity
from unbottle.eval.probe import Probe, probe
from unbottle.eval.prompt import PROMPTS, Prompt
from unbottle.eval.proper_nouns import tagger
from unbottle.eval.summary_comparison import Comparison, compare_summaries
from unbottle.eval.summary_examples import Columns, Examples, in_common
from unbottle.eval.summary_loss import SummaryLoss, summary_loss
from unbottle.eval.summary_scores import Options, Score, Scores, score_examples, summary_scores
from unbottle.eval.write_summaries import Documents, write_summaries

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
    "going_on",
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
