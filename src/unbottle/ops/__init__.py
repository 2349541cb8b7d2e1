"""Functions on tensors: sets of words, logits, deterministic top-k, sampled products. Imports torch only."""

from unbottle.ops.additive_attention import additive
from unbottle.ops.device import at_once, is_accelerator
from unbottle.ops.inplace_logits import InPlaceLogits, Tape, Workspace
from unbottle.ops.logits import DenseLogits, Logits, Words, Write, top
from unbottle.ops.numerics import float16_widened, logaddexp, logsumexp, product_dtype, wide, widen, without_autocast
from unbottle.ops.sampled_matmul import WeightGradient, dots

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
    "at_once",
    "dots",
    "float16_widened",
    "is_accelerator",
    "logaddexp",
    "logsumexp",
    "product_dtype",
    "top",
    "wide",
    "widen",
    "without_autocast",
]
