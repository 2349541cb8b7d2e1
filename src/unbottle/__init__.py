"""Unbottle: a better output layer for any Hugging Face language model."""

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from unbottle.lazy_import import on_first_use

__version__ = "0.1.0"
__all__ = [
    "Head",
    "HeadConfig",
    "Knobs",
    "Method",
    "MethodError",
    "UnsupportedArchitectureError",
    "__version__",
    "attach",
    "detach",
    "explain",
    "knobs",
    "load",
    "load_head",
    "save_head",
]

# Whoever imports unbottle gets all of it at once: from then on, from_pretrained knows our models. Only the program
# `unbottle` imports what a command needs, so that `unbottle --help` does not wait for torch.


def _is_program() -> bool:
    """Whether this process runs `unbottle`, or `python -m unbottle`.

    Python calls itself `-m` until it has found the module, and imports the packages around it. Which module that is
    stands before the arguments in the original command line.
    """
    if sys.argv[:1] == ["-m"]:
        return sys.orig_argv[-len(sys.argv) :][:1] == [__name__]
    return [PurePath(name).stem for name in sys.argv[:1]] == [__name__]


_IS_PROGRAM = _is_program()

if TYPE_CHECKING or not _IS_PROGRAM:
    from unbottle.head import Head, HeadConfig, Knobs
    from unbottle.hf import UnsupportedArchitectureError, attach, detach, explain, knobs, load, load_head, save_head
    from unbottle.method import Method, MethodError


__getattr__ = on_first_use(__name__, __all__, ("method", "head", "hf"))  # for code that the program runs
