"""layers_of: what a head reads of its model, without the head."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def layers_of(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The layers that the head of a causal model reads, B T L D."""
    wanted = model._wanted_layers(False, model.config.get_text_config().num_hidden_layers)
    outputs = model._backbone(**inputs, use_cache=False, output_hidden_states=wanted)
    layers: Tensor = model._layers(outputs.last_hidden_state, outputs.get("hidden_states"))
    return layers
