"""A program: compile a model with and without a head, and print what happened as JSON. Run by test_compile.py.

A process of its own, because the shape checks of the test run do not compile.
"""

from __future__ import annotations

import json
import sys

import torch
from models import shaken, tiny, words
from torch._dynamo.utils import counters
from trainers import without_dropout

from unbottle.head.fused_loss import FusedLoss
from unbottle.hf import attach

torch.set_num_threads(1)
PACKED = {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])}


def step(model, call, *, labels: bool, packed: bool, hidden_states: bool = False) -> dict[str, torch.Tensor]:
    """The logits, or the loss and all gradients; `hidden_states` are asked for, too, and not looked at."""
    ids = words(1 if packed else 2)
    inputs = {"input_ids": ids} | (PACKED | {"use_cache": False} if packed else {})
    inputs |= {"output_hidden_states": True} if hidden_states else {}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids.flip(1)
    outputs = call(**inputs, **{"labels": ids} if labels else {})
    if not labels:
        return {"logits": outputs.logits.detach()}
    model.zero_grad()
    outputs.loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": outputs.loss.detach(), **gradients}


def breaks(model, *, backend: str, **how: bool) -> tuple[int, dict[str, torch.Tensor]]:
    torch.compiler.reset()
    counters.clear()
    values = step(model, torch.compile(model, backend=backend), **how)
    return sum(counters["graph_break"].values()), values


RUNS: list[FusedLoss] = []


def count_fused_losses() -> None:
    """Remember each fused loss that runs: a compiled step must be one of them, or it holds all logits."""
    run = FusedLoss.run

    def counted(self: FusedLoss, *args: object) -> object:
        RUNS.append(self)
        return run(self, *args)

    FusedLoss.run = counted


def report(name: str, method: str, passes: str, *, packed: bool) -> dict[str, object]:
    found: dict[str, object] = {"name": name, "method": method}
    for what in passes.split(","):
        labels = what == "training step"
        how = {"labels": labels, "packed": packed}
        plain, _ = breaks(tiny(name).train(labels), backend="eager", **how)
        if plain and "mi" in method:  # a graph that breaks breaks more often where transformers keeps hidden states
            plain, _ = breaks(tiny(name).train(labels), backend="eager", hidden_states=True, **how)
        model = without_dropout(shaken(attach(tiny(name), method))).train(labels)
        want = step(model, model, **how)
        RUNS.clear()
        ours, values = breaks(model, backend="aot_eager", **how)
        assert want.keys() == values.keys()
        difference = max((want[key] - values[key]).abs().max().item() for key in want)
        found[what] = {"plain": plain, "head": ours, "difference": difference, "fused": len(RUNS)}
    return found


if __name__ == "__main__":
    count_fused_losses()
    passes, *cases = sys.argv[1:]
    for case in cases:
        architecture, written, *packing = case.split()
        print(json.dumps(report(architecture, written, passes, packed=bool(packing))))
