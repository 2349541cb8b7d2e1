"""The loss of summaries is that of each pair alone, token by token."""

from __future__ import annotations

import math

import pytest
import tiny_summaries as tiny
import torch

from unbottle.eval import summary_loss


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("method", [None, "s+cepr:20+mi", "ps"])
def test_padding_does_not_count(name: str, method: str | None) -> None:
    model = tiny.model(name, method, seed=1, shake=0.4).double()
    pairs = tiny.pairs(7)
    total = tokens = 0
    groups = {"document": [0.0, 0], "elsewhere": [0.0, 0]}
    for pair in pairs:
        with torch.no_grad():
            logits = model.eval()(input_ids=pair["input_ids"][None], labels=pair["labels"][None]).logits[0]
        for place, token in enumerate(pair["labels"].tolist()):
            loss = -float(logits[place].log_softmax(-1)[token])
            there = token in pair["input_ids"].tolist() and token != 2
            group = groups["document" if there else "elsewhere"]
            group[0], group[1] = group[0] + loss, group[1] + 1
            total, tokens = total + loss, tokens + 1
    model.train()
    found = summary_loss(model, pairs, batch=3)
    assert model.training
    assert found.tokens == tokens
    assert found.loss == pytest.approx(total / tokens, rel=1e-9)
    assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-9)
    for group, (loss, count) in groups.items():
        assert found.groups[group].tokens == count > 0
        assert found.groups[group].loss == pytest.approx(loss / count, rel=1e-9)


def test_the_paper_divides_by_padded_positions() -> None:
    """Labels padded to one length, and padding counted, of a model that is sure of it."""
    found = summary_loss(tiny.model("t5", None), tiny.pairs(5), batch=2)
    losses = [total for total, _ in found.pairs]
    assert found.padded(128) == pytest.approx(sum(losses) / (5 * 128))
    assert found.padded(128) == pytest.approx(found.loss * found.tokens / (5 * 128))


def test_what_is_reported_and_refused() -> None:
    seen = []
    summary_loss(tiny.model("t5", None), tiny.pairs(3), batch=2, report=lambda *told: seen.append(told))
    assert seen == [(2, 3, "2 of 3 summaries"), (3, 3, "3 of 3 summaries")]
    with pytest.raises(ValueError, match="no pairs"):
        summary_loss(tiny.model("t5", None), [])
