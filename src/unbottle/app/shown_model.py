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

    @contextmanager
    def turned(self, *, copy_bias: float = 0.0, source_only: bool = False) -> Iterator[None]:
        """With these knobs inside the block, if the model has a head that has them."""
        with knobs(self.model, copy_bias=copy_bias, source_only=source_only) if self.has_head else nullcontext():
            yield
