"""shuffled: a list in many orders, and what each model makes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unbottle.app.bounds import OPTIONS, ORDERS, SEED, TEXT, text_within, whole_within
from unbottle.app.shown_model import ShownModel
from unbottle.eval.order_bias import OrderBiasRow, order_bias_row, renormalised, tried_orders
from unbottle.eval.prompt import Prompt


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """One model: the options as listed and the share of each, order by order; and all orders summed up."""

    model: str
    method: str
    orders: tuple[tuple[str, ...], ...]
    shares: tuple[dict[str, float], ...]
    row: OrderBiasRow


def shuffled(models: Sequence[ShownModel], text: Any, *, orders: Any = 12, seed: Any = 0) -> Iterator[Shuffled]:
    """For each model, a prompt with its options in brackets in `orders` orders, or in all if there are fewer."""
    prompt = Prompt.parse(text_within(text, TEXT))
    least, most = OPTIONS
    if not least <= len(prompt.options) <= most:
        raise ValueError(
            f"The text has {len(prompt.options)} options in brackets, and {least} to {most} are needed. "
            "Write it as in: [tea] or [milk]? I take the"
        )
    number, chosen = whole_within(orders, ORDERS, "orders"), whole_within(seed, SEED, "seed")
    for shown in models:
        tried = tried_orders(shown.model, shown.tokenizer, [prompt], shuffles=number, seed=chosen)[prompt]
        yield Shuffled(
            model=shown.name,
            method=shown.method,
            orders=tuple(order for order, _ in tried),
            shares=tuple(renormalised(log_probability) for _, log_probability in tried),
            row=order_bias_row(prompt, tried),
        )
