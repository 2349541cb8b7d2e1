"""A list in many orders, as data and as a heat map."""

from __future__ import annotations

import re

import pytest
import tiny_shown

from unbottle.app.predictions import Shuffled, shuffled
from unbottle.app.render import heat_maps
from unbottle.eval.next_words import Prompt
from unbottle.eval.order_bias import order_bias, order_bias_row

LIST = "We have [tea], [milk] and [juice], and I take"


def test_every_order_of_every_model() -> None:
    models = tiny_shown.causal()
    found = [*shuffled(models, LIST, orders=5, seed=1)]
    assert [each.model for each in found] == ["plain", "cpr"]
    for shown, each in zip(models, found, strict=True):
        (row,) = order_bias(shown.model, shown.tokenizer, [Prompt.parse(LIST)], shuffles=5, seed=1).rows
        assert each.row == row
        assert each.orders[0] == ("tea", "milk", "juice")
        assert len({*each.orders}) == 5
        assert all(sum(share.values()) == pytest.approx(1) for share in each.shares)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": "no list"}, "The text has 0 options in brackets, and 2 to 8 are needed"),
        ({"text": " ".join(f"[{letter}]" for letter in "abcdefghi") + " so"}, "9 options"),
        ({"text": "[a] or [a]"}, "the same option twice"),
        ({"text": LIST, "orders": 25}, "orders 25: expected a number from 2 to 24"),
    ],
)
def test_refusals(asked: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        next(shuffled(tiny_shown.causal(), **asked))


def test_rows_are_orders_and_columns_options() -> None:
    prompt = Prompt.parse("[tea] or [<b>]? The")
    tried = [(("tea", "<b>"), {"tea": -1.0, "<b>": -2.0}), (("<b>", "tea"), {"tea": -2.0, "<b>": -1.0})]
    shares = ({"tea": 0.731, "<b>": 0.269}, {"tea": 0.269, "<b>": 0.731})
    each = Shuffled(
        model="<m>", method="softmax", orders=(tried[0][0], tried[1][0]), shares=shares,
        row=order_bias_row(prompt, tried),
    )  # fmt: skip
    html = heat_maps([each], ["later"])
    assert re.findall(r'<th scope="col">([^<]*)</th>', html) == ["order", "tea", "&lt;b&gt;"]
    cells = re.findall(r'<td[^>]*?( class="ub-best")?>(\d+)%<sub>(\d)</sub></td>', html)
    best = ' class="ub-best"'
    assert cells == [(best, "73", "1"), ("", "27", "2"), ("", "27", "2"), (best, "73", "1")]
    assert "<dt>winner changes</dt><dd>50%</dd>" in html
    assert "<dt>evenness</dt><dd>0.840</dd>" in html
    assert "<b>" not in html.replace("<b>Bold</b>", "")
    assert "<m>" not in html
    assert "shuffling…" in html
