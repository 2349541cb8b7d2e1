"""ReplayedModel: a frozen model whose hidden states were stored, so that only its head is computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unbottle.hf.head_inputs import states
from unbottle.train.hidden_state_cache import WindowsWithStates


class ReplayedModel(nn.Module):
    """Predicts the windows whose hidden states are stored. Any other input raises a KeyError."""

    def __init__(self, model: Any, stored: WindowsWithStates) -> None:
        super().__init__()
        self.model: Any = model
        self.config = model.config
        self.stored = stored
        self.indices = {tuple(stored.windows[index]["input_ids"].tolist()): index for index in range(len(stored))}

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def get_output_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.model.get_output_embeddings()
        return embeddings

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        layers = torch.stack([self.stored[self.indices[tuple(row.tolist())]]["layers"] for row in input_ids])
        layers = layers.to(self.model.device, self.model.dtype)
        here = states(layers, input_ids, None, None, past=None)
        return self.model._predict(here, past=None, labels=None, num_items=None, logits_to_keep=0, skip_logits=False)
