"""ShownModel: a model that the page shows, under a short name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from unbottle.eval.probe import PLAIN
from unbottle.hf.attach import innermost
from unbottle.hf.knobs import knobs
from unbottle.hf.mixin import HeadMixin


@dataclass(frozen=True, kw_only=True)
class ShownModel:
    """A model with or without a head, and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any

    @property
    def encoder_decoder(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    @property
    def has_head(self) -> bool:
        return isinstance(innermost(self.model), HeadMixin)

    @property
    def method(self) -> str:
        return str(innermost(self.model).head.config.method) if self.has_head else PLAIN

    @property
    def copies(self) -> bool:
        """Whether the model has knobs: a plain model has none, nor has a head that copies nothing."""
        return self.has_head and bool(innermost(self.model).head.copies)

    @contextmanager
    def turned(self, *, copy_bias: float = 0.0, source_only: bool = False) -> Iterator[None]:
        """With these knobs inside the block, if the model has them."""
        with knobs(self.model, copy_bias=copy_bias, source_only=source_only) if self.copies else nullcontext():
            yield

    def ignored(self, *, copy_bias: float = 0.0, source_only: bool = False) -> str:
        """A note on the knobs that were asked for and that this model does not have; empty if there are none."""
        names = {"Copy bias": copy_bias != 0, "Only words of the document": source_only}
        asked = [name for name, is_on in names.items() if is_on]
        if self.copies or not asked:
            return ""
        return f"{' and '.join(asked)}: not applied, because this model's output layer copies no words."
