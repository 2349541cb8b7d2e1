"""Numbers of every method on tiny models: losses, gradients, next-word probabilities and generated tokens.

Floats are stored by `float.hex`, so that a file can be compared bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from frozen import models
from torch import Tensor

import unbottle

FILE = Path(__file__).parent / "golden.json"
POSITIONS = (1, 3, 5)  # whose next word's log-probability is kept
NEW_TOKENS = 8
COMBINED = (  # methods that together have every part
    "softmax+cpr:3,6+mi",
    "mos+cpr:3,6+mi",
    "pg+mi",
    "ps+mi",
    "copynet+mi",
    "softmax+cpr:3,6+wbwr:6+mi",
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A head on a model."""

    model: str
    method: str
    form: str = "scaled"
    convention: str = "paper"

    @property
    def name(self) -> str:
        return f"{self.model} {self.method} form={self.form} convention={self.convention}"

    @property
    def usual(self) -> bool:
        """A head as attach makes it, on a model that computes in float64 throughout."""
        return (self.form, self.convention) == ("scaled", "paper") and self.model in models.DOUBLE

    @property
    def quick(self) -> bool:
        """Whether its tokens are generated in every test run: for methods that together have every part."""
        return self.usual and self.method in (*models.LETTERS, *models.WITH_SOURCE, *COMBINED)

    @property
    def encoder_decoder(self) -> bool:
        return self.model in models.ENCODER_DECODER


def cases() -> Iterator[Case]:
    """Every method on GPT-2 and BART; some in other forms, by the other convention, and on other output layers."""
    for method in models.METHODS:
        for model in models.DOUBLE:
            if models.takes(model, method):
                yield Case(model=model, method=method)
    for method in COMBINED[:2]:
        for form in models.FORMS[1:]:
            yield Case(model="gpt2", method=method, form=form)
    yield Case(model="bart", method="softmax+cepr:3+mi", form="paper")
    for method in COMBINED:
        yield Case(model="gpt2", method=method, form="paper", convention="release")
    yield Case(model="bart", method="softmax+cepr:3+mi", form="paper", convention="release")
    for model in ("gemma2", "cohere", "llama"):
        yield Case(model=model, method="softmax+cpr:3,6+mi")
    yield Case(model="gemma2", method="mos+cpr:3,6+mi")
    yield Case(model="t5", method="softmax+cepr:3+mi")
    yield Case(model="t5", method="pg+mi")


def build(case: Case) -> tuple[Any, dict[str, str]]:
    """A model with a head far from its start; and what its parameters were at the start, as sums of squares."""
    model = models.model(case.model)
    torch.manual_seed(0)  # not before: versions of transformers draw differently to make a model
    unbottle.attach(model, case.method, form=case.form, convention=case.convention, check=False)
    fresh = {name: squares(value) for name, value in sorted(model.head.named_parameters())}
    models.perturb(model.head)
    return model, fresh


def numbers(case: Case) -> dict[str, Any]:
    """Losses, gradients and probabilities."""
    model, fresh = build(case)
    found = {"fresh": fresh, "float64": {**steps(model, case), **evaluated(model, case), "gradients": each(model)}}
    return found | ({"float32": steps(model.float(), case)} if case.usual else {})


def tokens(case: Case) -> dict[str, list[list[int]]]:
    """What greedy search and a search with two beams generate."""
    model, _ = build(case)
    rows = models.batch(case.model)
    if case.model in models.RIGHT_PADDED:  # a prompt does not end with padding
        rows = {name: values[:1] for name, values in rows.items()}
    return {"greedy": generated(model, rows, num_beams=1), "beams": generated(model, rows, num_beams=2)}


def steps(model: Any, case: Case) -> dict[str, Any]:
    """A training step that returns logits, and one without them, which takes the fused loss."""
    return {"dense": trained(model, case, skip_logits=False), "fused": trained(model, case)}


def trained(model: Any, case: Case, **options: Any) -> dict[str, str]:
    """The loss of a training step, and the sum of squares of all gradients, of the head and of the model under it."""
    model.train()
    model.zero_grad()
    outputs = model(**models.batch(case.model), **options)
    assert outputs.loss.isfinite(), case.name
    outputs.loss.backward()
    named = [(name, value.grad) for name, value in model.named_parameters() if value.grad is not None]
    head, rest = ([grad.flatten() for name, grad in named if name.startswith("head.") == is_head] for is_head in (1, 0))
    sums = {name: squares(torch.cat(found)) if found else "0" for name, found in (("head", head), ("model", rest))}
    return {"loss": float(outputs.loss.detach()).hex(), **sums}


def each(model: Any) -> dict[str, str]:
    """The sum of squares of each parameter's gradient."""
    named = sorted(model.named_parameters())
    return {name: squares(parameter.grad) for name, parameter in named if parameter.grad is not None}


@torch.no_grad()
def evaluated(model: Any, case: Case) -> dict[str, Any]:
    """The loss in evaluation mode, and the next word's log-probability at some positions."""
    model.eval()
    rows = models.batch(case.model)
    outputs = model(**rows)
    next_words = rows["labels"] if case.encoder_decoder else rows["input_ids"].roll(-1, dims=1)
    log_probs = outputs.logits.log_softmax(-1)[0, list(POSITIONS)]
    chosen = log_probs.gather(-1, next_words[0, list(POSITIONS), None])[:, 0]
    return {"eval_loss": float(outputs.loss).hex(), "log_probs": [value.hex() for value in chosen.tolist()]}


def generated(model: Any, rows: dict[str, Tensor], **options: Any) -> list[list[int]]:
    """Always as many tokens: nothing ends a sequence."""
    model.generation_config.eos_token_id = None
    given = {name: rows[name] for name in ("input_ids", "attention_mask")}
    tokens = model.generate(**given, max_new_tokens=NEW_TOKENS, do_sample=False, **options)
    return [row[-NEW_TOKENS:] for row in tokens.tolist()]


def squares(values: Tensor) -> str:
    """The sum of squares in float64, whatever the dtype. It is exact, so the order of the terms does not matter."""
    return math.fsum((values.detach().double() ** 2).flatten().tolist()).hex()
