"""What a model predicts and generates, measured."""

from unbottle.eval.analogy import AnalogyResult, analogy
from unbottle.eval.completion import Completion, Protocol, completion, rescore
from unbottle.eval.generate import Decoding, Prediction, predictions
from unbottle.eval.order_bias import OrderBias, order_bias
from unbottle.eval.overlapping import Overlapping
from unbottle.eval.perplexity import Perplexity, perplexity
from unbottle.eval.probe import Probe, probe
from unbottle.eval.prompt import PROMPTS, Prompt
from unbottle.eval.proper_nouns import tagger

__all__ = [
    "PROMPTS",
    "AnalogyResult",
    "Completion",
    "Decoding",
    "OrderBias",
    "Overlapping",
    "Perplexity",
    "Prediction",
    "Probe",
    "Prompt",
    "Protocol",
    "analogy",
    "completion",
    "order_bias",
    "perplexity",
    "predictions",
    "probe",
    "rescore",
    "tagger",
]
