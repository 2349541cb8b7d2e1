"""What a comparison is told, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unbottle.data.named import is_python
from unbottle.recipes.any_preset import Backbone
from unbottle.recipes.compare import summary_rows
from unbottle.recipes.compare.comparison import LEARNING_RATES, METHODS, ROWS, SOFTMAX, Comparison, comparison
from unbottle.recipes.compare.summary_rows import SummaryComparison, summary_comparison
from unbottle.recipes.demo.plan import SMOLLM2
from unbottle.recipes.demo.pretrained import pretrained, user_cache
from unbottle.recipes.variant import Variant

OF_THE_DEMO = "smollm2"


def comparison_from(
    model: str,
    data: str,
    train: str,
    *,
    tokens: tuple[int, int, int],
    length: int,
    batch: int | None,
    lrs: Sequence[float] | None,
    tagger: str | None,
) -> Comparison:
    """As the command says it."""
    rates = tuple(lrs or LEARNING_RATES)
    for rate in rates:
        replace(ROWS, lr=rate)  # refuses what is no learning rate
    return comparison(
        model,
        data,
        rows=replace(ROWS, train=train, length=length, batch=batch or ROWS.batch, lr=rates[0]),
        lrs=rates,
        train_tokens=tokens[0],
        valid_tokens=tokens[1],
        test_tokens=tokens[2],
        tagger=tagger or ("identifiers" if is_python(data) else "auto"),
    )


def summary_comparison_from(
    model: str,
    data: str,
    train: str,
    *,
    pairs: int,
    test_pairs: int,
    length: int,
    batch: int | None,
    lrs: Sequence[float] | None,
) -> SummaryComparison:
    if lrs is not None and len(lrs) > 1:
        raise ValueError(f"--lr {', '.join(f'{rate:g}' for rate in lrs)}: give one, where summaries are learnt.")
    lr = summary_rows.ROWS.lr if lrs is None else lrs[0]
    batch = batch or summary_rows.ROWS.batch
    sizes = {"pairs": pairs, "test_pairs": test_pairs, "length": length, "batch": batch}
    return summary_comparison(model, data, train=train, lr=lr, **sizes)


def rows_from(names: Sequence[str], *, summaries: bool = False) -> list[str]:
    """Each row once, and always the baseline, which all others are compared with."""
    usual: tuple[str, ...] = METHODS
    baseline = SOFTMAX
    if summaries:
        usual, baseline = summary_rows.METHODS, summary_rows.BASELINE
    variants = [Variant.parse(name) for name in names or usual]
    for variant in variants:
        if summaries and len(variant.choices) > 1:
            raise ValueError(f"{str(variant)!r}: give one learning rate, where summaries are learnt.")
    rows = [str(variant) for variant in variants]
    return [*dict.fromkeys(rows if baseline in rows else [baseline, *rows])]


def with_model(how: Any, report: Any) -> Any:
    """The model of the demo is fetched if it is not here yet."""
    fetched = {
        title: Backbone(pretrained=str(pretrained(SMOLLM2, user_cache(), report)))
        if backbone.pretrained == OF_THE_DEMO
        else backbone
        for title, backbone in how.backbones.items()
    }
    return replace(how, backbones=fetched)
