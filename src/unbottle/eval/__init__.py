"""What a model predicts and generates, measured."""

from unbottle.eval.overlapping import Overlapping
from unbottle.eval.perplexity import Perplexity, perplexity

__all__ = [
    "Overlapping",
    "Perplexity",
    "perplexity",
]
