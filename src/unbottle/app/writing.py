"""What models write: continuations of a text, summaries of a document; one model at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unbottle.app.bounds import (
    COPY_BIAS,
    NEW_WORDS,
    SEED,
    SOURCE,
    SUMMARY_TOKENS,
    TEXT,
    TOP_K,
    number_within,
    text_within,
    whole_within,
)
from unbottle.app.shown_model import ShownModel
from unbottle.eval.generate import Decoding, predictions
from unbottle.eval.sampling import continuations


@dataclass(frozen=True, kw_only=True)
class Written:
    """A text by one model, and what is to be said about it."""

    model: str
    method: str
    text: str
    note: str = ""


def continued(
    models: Sequence[ShownModel], text: Any, *, words: Any = 30, top_k: Any = 1, seed: Any = 0, copy_bias: Any = 0
) -> Iterator[Written]:
    """The next words of each model, sampled from the `top_k` most likely; 1 always takes the most likely.

    Knobs are as before whenever this yields: what is asked in between does not feel them.
    """
    given = text_within(text, TEXT).rstrip()
    number = whole_within(words, NEW_WORDS, "new words")
    chosen = {"top_k": whole_within(top_k, TOP_K, "top k"), "seed": whole_within(seed, SEED, "seed")}
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    for shown in models:
        with shown.turned(copy_bias=bias):
            (made,) = continuations(shown.model, shown.tokenizer, [given], words=number, **chosen)
        notes = ["" if made else "Nothing was written.", shown.ignored(copy_bias=bias)]
        yield Written(model=shown.name, method=shown.method, text=made, note=" ".join(filter(None, notes)))


def summarized(
    models: Sequence[ShownModel],
    source: Any,
    *,
    sampling: Any = "beams",
    tokens: Any = 80,
    seed: Any = 0,
    copy_bias: Any = 0,
    source_only: bool = False,
) -> Iterator[Written]:
    """A summary by each model. Knobs are as before whenever this yields."""
    given = text_within(source, SOURCE, "document")
    decoding = Decoding(
        sampling=sampling,
        max_length=whole_within(tokens, SUMMARY_TOKENS, "tokens"),
        seed=whole_within(seed, SEED, "seed"),
    )
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    only = bool(source_only)
    for shown in models:
        with shown.turned(copy_bias=bias, source_only=only):
            (made,) = predictions(shown.model, shown.tokenizer, [given], decoding)
        notes = ["" if made.text else "Nothing was written."]
        notes += [f"The last {made.dropped} tokens of the document were not read."] if made.dropped else []
        notes.append(shown.ignored(copy_bias=bias, source_only=only))
        yield Written(model=shown.name, method=shown.method, text=made.text, note=" ".join(filter(None, notes)))
