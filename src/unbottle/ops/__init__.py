"""Functions on tensors: sets of words, the logits seam, deterministic top-k. Imports torch only."""

from unbottle.ops.additive import additive
from unbottle.ops.dots import dots
from unbottle.ops.in_place import InPlaceLogits
from unbottle.ops.logits import DenseLogits, Logits, Write
from unbottle.ops.logsumexp import logaddexp, logsumexp
from unbottle.ops.precision import float16_widened, product_dtype, widen, without_autocast
from unbottle.ops.tape import Tape
from unbottle.ops.top import top
from unbottle.ops.weight_gradient import WeightGradient
from unbottle.ops.words import Words
from unbottle.ops.workspace import Workspace

__all__ = [
    "DenseLogits",
    "InPlaceLogits",
    "Logits",
    "Tape",
    "WeightGradient",
    "Words",
    "Workspace",
    "Write",
    "additive",
    "dots",
    "float16_widened",
    "logaddexp",
    "logsumexp",
    "product_dtype",
    "top",
    "widen",
    "without_autocast",
]
