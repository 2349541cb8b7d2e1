"""quiet: the bars and logs of transformers stay out of the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

from unbottle.hf.without_bars import without_bars

# FSDP2 warns of views that might be changed in place. T5's blocks return one, the bias of positions, and models with a
# head return their logits as one on the dense path; nothing changes either, and no gradient comes from those logits.
HARMLESS = r"FSDP2-wrapped module \(FSDP(T5Block|Unbottled\w+)\) returned a view"


@contextmanager
def quiet() -> Iterator[None]:
    """No bars but ours. The Trainer sets the level of all logs of transformers; here only for its own time."""
    with without_bars(logging), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=HARMLESS)
        yield
