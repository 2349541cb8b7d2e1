"""How logits become a distribution, one file per base of the method language."""

from unbottle.head.bases.mixture import Mixture
from unbottle.head.bases.pointer_generator import PointerGenerator
from unbottle.head.bases.pointer_sentinel import PointerSentinel

__all__ = ["Mixture", "PointerGenerator", "PointerSentinel"]
