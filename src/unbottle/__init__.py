"""Unbottle: a better output layer for any Hugging Face language model."""

from unbottle.head import Head, HeadConfig
from unbottle.hf import UnsupportedArchitectureError, attach, detach
from unbottle.spec import Method, MethodError

__version__ = "0.1.0.dev0"
__all__ = [
    "Head",
    "HeadConfig",
    "Method",
    "MethodError",
    "UnsupportedArchitectureError",
    "__version__",
    "attach",
    "detach",
]
