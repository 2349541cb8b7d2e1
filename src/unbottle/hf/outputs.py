"""Model outputs: shifted labels, and the placeholder for logits that were not computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.utils import ModelOutput

from unbottle.head.distribution import IGNORED


def shifted(labels: Tensor) -> Tensor:
    """Tokens < n predict n: the label of a position is the next one."""
    return F.pad(labels, (0, 1), value=IGNORED)[..., 1:]


ADVICE = (
    "the loss was computed without logits, as always in training: they would take batch x positions x vocabulary "
    "numbers. Call model(..., skip_logits=False) to get them, or model.eval()."
)


class SkippedLogitsError(AttributeError, TypeError):
    """Logits are used that were not computed."""


class SkippedLogits:
    """A placeholder that raises an error, with advice, when it is used as a tensor.

    It is an attribute only. As a mapping, and as a tuple, an output has no logits then: the Trainer, accelerate and
    distributed wrappers, which gather what outputs contain, treat them as None.
    """

    def __repr__(self) -> str:
        return "SkippedLogits()"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # copy, pickle, numpy and others ask what an object can do
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise SkippedLogitsError(f"outputs.logits.{name}: {ADVICE}")

    @classmethod
    def __torch_function__(cls, function: object, types: object, args: object = (), kwargs: object = None) -> NoReturn:
        raise SkippedLogitsError(f"torch.{getattr(function, '__name__', function)} of outputs.logits: {ADVICE}")


def _refuses(operation: str) -> Callable[..., NoReturn]:
    def refuse(self: SkippedLogits, *args: object) -> NoReturn:
        raise SkippedLogitsError(f"{operation} of outputs.logits: {ADVICE}")

    return refuse


OPERATIONS = ("getitem", "iter", "len", "float", "array", "add", "sub", "mul", "truediv", "matmul", "neg")
for _name in OPERATIONS:
    setattr(SkippedLogits, f"__{_name}__", _refuses(_name))


def without_logits(output: ModelOutput) -> None:
    """Put the placeholder into an output that was built without logits. A compiled graph leaves None there."""
    if not torch.compiler.is_compiling():
        object.__setattr__(output, "logits", SkippedLogits())
