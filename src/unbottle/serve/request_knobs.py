"""copy_bias of one request: a logits processor of vLLM that changes no logits, but tells the head about requests.

vllm serve runs/cpr/model --logits-processors unbottle.serve.request_knobs:RequestKnobs
"""

from __future__ import annotations

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from unbottle.head import Knobs
from unbottle.serve.vllm import StateLayer

NAMES = ("copy_bias", "source_only", "always_allowed")


class RequestKnobs(LogitsProcessor):
    """Reads `copy_bias`, `source_only` and `always_allowed` of a request: see `unbottle.Knobs`."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        layers = vllm_config.compilation_config.static_forward_context
        self.layers = layers  # the model is loaded later, and puts its own there
        self.knobs: dict[int, Knobs] = {}

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        _knobs(sampling_params)

    def is_argmax_invariant(self) -> bool:
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Before each step: which request is where in the batch."""
        process_dict_updates(self.knobs, batch_update, lambda params, *_: _knobs(params))
        for layer in self.layers.values():
            if isinstance(layer, StateLayer):
                layer.knobs = self.knobs

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return logits


def _knobs(params: SamplingParams) -> Knobs | None:
    """The knobs that a request names; None where it names none."""
    named = {name: value for name, value in (params.extra_args or {}).items() if name in NAMES}
    if not named:
        return None
    bias, allowed = named.get("copy_bias", 0.0), named.get("always_allowed", ())
    if isinstance(bias, bool) or not isinstance(bias, (int, float)):
        raise ValueError(f"copy_bias {bias!r}: expected a finite number, 0 for no bias.")
    if not isinstance(allowed, (list, tuple)) or not all(type(word) is int and word >= 0 for word in allowed):
        raise ValueError(f"always_allowed {allowed!r}: expected a list of token ids.")
    only = named.get("source_only", False)
    if only not in (True, False, 0, 1):
        raise ValueError(f"source_only {only!r}: expected true or false.")
    return Knobs(copy_bias=float(bias), source_only=bool(only), always_allowed=tuple(allowed))
