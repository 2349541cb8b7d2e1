"""The self-test of attach: a fresh head must predict what the plain model predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.utils import ModelOutput

from unbottle.head.config import CLOSED
from unbottle.head.inputs import Inputs
from unbottle.head.partitions import CopyNet
from unbottle.hf.cache import find_past
from unbottle.hf.head_inputs import watched
from unbottle.hf.model_with_head import ModelWithHead

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.03}
POINTER_TOLERANCE = 5e-3  # PG, PS and CopyNet start close to the softmax, not on it


SMALL_RATE, LARGE_STEP = 1e-5, 1.0  # the paper's learning rate, and how far a step of it may move a logit


class UnsupportedArchitectureError(ValueError):
    """A model whose output layer does something that the head does not know."""


@torch.no_grad()
def probe(model: PreTrainedModel | ModelWithHead) -> Tensor | None:
    """What the model says about a few words without a head. None on the meta device, where nothing can run."""
    inputs = probe_words(model)
    if inputs is None:
        return None
    base: Any = getattr(model, "base_class", None)
    plain = model if base is None else partial(base.forward, model)
    logits: Tensor = _run(model, inputs, use_cache=False, forward=plain)["logits"]
    return logits


def probe_words(model: PreTrainedModel | ModelWithHead) -> dict[str, Tensor] | None:
    """A small batch of random words, the same at each call."""
    output: Any = model.get_output_embeddings()
    weight: Tensor = output.weight
    if weight.device.type == "meta":
        return None
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, weight.shape[0], (2, 8), generator=generator).to(model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :5].flip(1)
    return inputs


@torch.no_grad()
def calibrate(model: ModelWithHead) -> None:
    """What a fresh head takes over from the numbers of its model: where CopyNet's bias starts, how long keys are."""
    head = model.head
    if isinstance(head.gate, CopyNet) and (plain := probe(model)) is not None:
        # It adds exp(f . k + b) to exp(logit): b must be small beside log Z, which differs from model to model.
        lowest = plain.double().logsumexp(-1).min().item()
        head.gate.b.fill_(min(lowest, 0.0) - 2 * head.config.gate_start)
    if not head.config.learnt.scaled or not (head.context_keys or head.source_keys):
        return
    if (x := _head_inputs(model)) is not None:
        texts = [x.context, *([] if x.source is None else [x.source])]
        for name, key in (item for text in texts for item in text.keys.items()):
            length = key.float().norm(dim=-1).median()
            if length > 0:
                head.L[name].get_parameter("weight").div_(length)


@torch.no_grad()
def warn_of_large_steps(model: ModelWithHead) -> None:
    """Say that a form lets a step of training move logits by a lot, where it does: on models with large states."""
    if model.head.config.learnt.scaled or "V" not in model.head.L or (x := _head_inputs(model)) is None:
        return
    weight = x.embedding.weight.float().abs().sum(-1).mean()
    step = (x.q.float().abs().sum(-1).median() * weight * x.embedding.scale).item() * SMALL_RATE
    if step > LARGE_STEP:
        warnings.warn(
            f"form {model.head.config.form!r}: the hidden states of this {model.base_class.__name__} are large, so one "
            f"step of Adam with a learning rate of {SMALL_RATE:g} can move a logit by about {step:.1f}. Training may "
            "make the model worse. The default form does not have this problem.",
            stacklevel=4,
        )


def _head_inputs(model: ModelWithHead) -> Inputs | None:
    """What the head computes with on a probe batch; None on the meta device."""
    inputs = probe_words(model)
    if inputs is None:
        return None
    with watched(model.head) as seen:
        _run(model, inputs, use_cache=False)
    return seen[0][0]


@torch.no_grad()
def refuse_difference(model: ModelWithHead, before: Tensor) -> None:
    """Compare the model with its fresh head to the logits that it gave before."""
    inputs = probe_words(model)
    assert inputs is not None
    after = _run(model, inputs, use_cache=False)["logits"]
    if after.shape != before.shape:
        raise _unsupported(model, f"its logits are {tuple(before.shape)}, the head's {tuple(after.shape)}")
    was, now = before.double().log_softmax(-1), after.double().log_softmax(-1)
    if model.head.gate is not None:
        difference = (was.exp() - now.exp()).abs().sum(-1).max().item() / 2
        allowed = POINTER_TOLERANCE + TOLERANCE.get(before.dtype, 0.1)
        if model.head.config.gate_start < CLOSED and difference > allowed:  # asked for: said, not refused
            warnings.warn(
                f"gate_start {model.head.config.gate_start:g}: the fresh {model.head.config.method.title} moves up to "
                f"{difference:.1%} of the probability to copied words, so it does not predict what the model predicts.",
                stacklevel=4,
            )
            allowed = 1.0
    else:
        likely = was > was.amax(-1, keepdim=True) - 20
        difference = (was - now).where(likely, 0).abs().max().item()
        allowed = TOLERANCE.get(before.dtype, 0.1)
    if not difference <= allowed:
        raise _unsupported(
            model,
            f"its words' log-probabilities and a fresh head's differ by {difference:.3g}, so its output layer does "
            "something that the head does not know",
        )
    cache = _run(model, inputs, use_cache=True).get("past_key_values")
    past = find_past(cache) if isinstance(cache, Cache) else None
    if cache is None or past is None or not len(past) == int(cache.get_seq_length()) == after.shape[1]:
        raise _unsupported(model, "it keeps no past_key_values in which the head's state could be kept while decoding")


def _run(
    model: PreTrainedModel | ModelWithHead,
    inputs: dict[str, Tensor],
    *,
    use_cache: bool,
    forward: Callable[..., ModelOutput] | None = None,
) -> ModelOutput:
    training = model.training
    model.eval()
    try:
        return (forward or model)(**inputs, use_cache=use_cache)
    except UnsupportedArchitectureError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(".")
        raise _unsupported(model, f"a forward pass on words failed: {what}") from error
    finally:
        model.train(training)


def _unsupported(model: object, why: str) -> UnsupportedArchitectureError:
    name = getattr(model, "base_class", type(model)).__name__
    return UnsupportedArchitectureError(f"{name} is not supported: {why}.")
