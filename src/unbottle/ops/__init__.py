"""Functions on tensors: sets of words, the logits seam, deterministic top-k. Imports torch only."""

from unbottle.ops.logits import DenseLogits, Logits, Write
from unbottle.ops.logsumexp import logaddexp, logsumexp
from unbottle.ops.precision import float16_widened, widen
from unbottle.ops.top import top
from unbottle.ops.words import Words

__all__ = ["DenseLogits", "Logits", "Words", "Write", "float16_widened", "logaddexp", "logsumexp", "top", "widen"]
