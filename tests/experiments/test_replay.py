"""A model that has read the windows answers as if it read them now."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_training import model, settings, windows

from unbottle.eval import perplexity
from unbottle.experiments.compare import ReplayedModel
from unbottle.progress import silent
from unbottle.train.hidden_state_cache import cache_hidden_states


@pytest.mark.parametrize("method", ["softmax+mi", "softmax+cpr:5,20+mi"])
def test_the_same_logits(method: str, tmp_path: Path) -> None:
    made, text = model(method), windows(60)
    with torch.no_grad():
        for parameter in made.head.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    reader = ReplayedModel(made, cache_hidden_states(made, text, settings(tmp_path), silent))
    stored_, read = (perplexity(each, text, k=5) for each in (reader, made))
    assert [loss for loss, _ in stored_.windows] == pytest.approx([loss for loss, _ in read.windows], rel=1e-5)
    assert {name: group.tokens for name, group in stored_.groups.items()} == {
        name: group.tokens for name, group in read.groups.items()
    }
    with pytest.raises(KeyError):
        reader(torch.tensor([[1, 2, 3]]))
