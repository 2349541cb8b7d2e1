"""What a model predicts and generates, measured."""

from unbottle.eval.completion import Completion, Protocol, completion, rescore
from unbottle.eval.overlapping import Overlapping
from unbottle.eval.perplexity import Perplexity, perplexity
from unbottle.eval.proper_nouns import tagger

__all__ = [
    "Completion",
    "Overlapping",
    "Perplexity",
    "Protocol",
    "completion",
    "perplexity",
    "rescore",
    "tagger",
]
