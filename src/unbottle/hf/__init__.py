"""Heads on models of transformers: attach, detach, load, save, explain."""

from unbottle.hf.attach import attach, detach
from unbottle.hf.explain import Explanation, explain
from unbottle.hf.head_adapter import load_head, save_head
from unbottle.hf.knobs import knobs
from unbottle.hf.parity import UnsupportedArchitectureError
from unbottle.hf.pretrained import load

__all__ = [
    "Explanation",
    "UnsupportedArchitectureError",
    "attach",
    "detach",
    "explain",
    "knobs",
    "load",
    "load_head",
    "save_head",
]
