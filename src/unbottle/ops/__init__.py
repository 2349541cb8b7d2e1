"""Functions on tensors: sets of words, logits, deterministic top-k, sampled products. Imports torch only."""

from unbottle.ops.additive_attention import additive
from unbottle.ops.device import at_once, is_accelerator
from unbottle.ops.inplace_logits import InPlaceLogits, Tape, Workspace
from unbottle.ops.logits import DenseLogits, Logits, Words, Write, once, top
from unbottle.ops.matmul import as_columns, linear, multiplies_as_columns
from unbottle.ops.numerics import (
    float16_widened,
    logaddexp,
    logsumexp,
    product_dtype,
    wide,
    widen,
    without_autocast,
    without_gradients,
)
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
    "as_columns",
    "at_once",
    "dots",
    "float16_widened",
    "is_accelerator",
    "linear",
    "logaddexp",
    "logsumexp",
    "multiplies_as_columns",
    "once",
    "product_dtype",
    "top",
    "wide",
    "widen",
    "without_autocast",
    "without_gradients",
]
