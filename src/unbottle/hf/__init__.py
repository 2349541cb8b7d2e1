"""Everything that knows transformers: attach a head to a model, and everything else goes on as before."""

from unbottle.hf.adapter import load_head, save_head
from unbottle.hf.attach import attach, detach
from unbottle.hf.explain import explain
from unbottle.hf.explanation import Explanation
from unbottle.hf.knobs import knobs
from unbottle.hf.parity import UnsupportedArchitectureError
from unbottle.hf.saving import load

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
