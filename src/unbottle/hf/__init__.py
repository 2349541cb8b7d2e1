"""Everything that knows transformers: attach a head to a model, and everything else goes on as before."""

from unbottle.hf.attach import attach, detach
from unbottle.hf.parity import UnsupportedArchitectureError

__all__ = ["UnsupportedArchitectureError", "attach", "detach"]
