"""Unbottle: a better output layer for any Hugging Face language model."""

from unbottle.head import Head, HeadConfig, Knobs
from unbottle.hf import UnsupportedArchitectureError, attach, detach, explain, knobs, load, load_head, save_head
from unbottle.spec import Method, MethodError

__version__ = "0.1.0.dev0"
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
