"""TRL: its trainers ask a model for log-probabilities instead of logits. Here the head answers.

SFT, DPO, KTO, GRPO and RLOO trainers (trl 1.16) set `model.forward` to a function that runs the backbone, multiplies by
`lm_head.weight` itself and so would never call a head. A model with a head puts its own answer there instead, so that
these trainers run unchanged and train the head. This file does not import trl: it only meets what trl brings.
"""

from __future__ import annotations

import inspect
import sys
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from unbottle.head import Distribution
from unbottle.head.distribution import IGNORED
from unbottle.hf.head_inputs import shifted
from unbottle.hf.model_with_head import ModelWithHead

MODULE, NAME = "trl.trainer.utils", "_fused_forward"  # in there, add_fused_lm_head makes it
OPTIONS = ("temperature", "outputs", "cast_lm_head_to_fp32")  # what add_fused_lm_head was asked for, in its closure


def is_fused(forward: Any) -> bool:
    """Whether this is the forward that TRL's add_fused_lm_head puts on a model."""
    function = getattr(forward, "__func__", forward)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_name == NAME and function.__globals__["__name__"] == MODULE


def answer(model: ModelWithHead, forward: Any) -> MethodType:
    """A forward that takes and returns what TRL's does, computed by the head."""
    if model.config.is_encoder_decoder:
        raise NotImplementedError(f"TRL trains decoder-only models; this is a {model.base_class.__name__}.")
    options = _options(forward)
    if options.pop("cast_lm_head_to_fp32"):
        raise NotImplementedError(
            "cast_lm_head_to_fp32=True would put the output embeddings in another dtype than the head that reads them. "
            "Leave it out: probabilities are computed in float32 anyway."
        )
    own: Any = getattr(type(model), "forward")  # noqa: B009  not in the protocol
    before = model.__dict__.get("forward")  # what was set on the model earlier, the autocast of accelerate, say
    make = sys.modules[MODULE].FusedCausalLMOutput

    def answered(
        self: Any,
        *args: Any,
        fused_lm_head: bool = False,
        labels: Tensor | None = None,
        shift_labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> Any:
        call = MethodType(own, self) if before is None else before
        if not fused_lm_head:
            return call(
                *args, labels=labels, shift_labels=shift_labels, num_items_in_batch=num_items_in_batch, **kwargs
            )
        chosen = labels if shift_labels is None else shift_labels
        assert chosen is not None, "fused_lm_head asks about labels"
        targets = shifted(chosen) if shift_labels is None else chosen
        if num_items_in_batch is None:  # a batch without any label has the loss 0, as in TRL
            num_items_in_batch = (targets != IGNORED).sum().clamp(min=1)
        kwargs |= {"use_cache": False, "output_distribution": True}
        outputs = call(*args, shift_labels=targets, num_items_in_batch=num_items_in_batch, **kwargs)
        values = per_token(outputs["distribution"], targets, **options)
        if shift_labels is None:  # no label for the last position: TRL leaves it out
            values = {name: value[:, :-1] for name, value in values.items()}
        loss = outputs.loss if options["temperature"] == 1.0 else None  # trainers with a temperature have their own
        return make(loss=loss, aux_loss=outputs.get("aux_loss"), **values)

    answered.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    return MethodType(answered, model)


def per_token(
    distribution: Distribution, labels: Tensor, *, temperature: float, outputs: tuple[str, ...]
) -> dict[str, Tensor]:
    """What TRL wants to know about each label: log-probability, entropy, ...; 0 where there is no label.

    A temperature divides what the model returns as logits: those of the softmax or, where several softmaxes or copied
    words are mixed, the log-probabilities. That is what generate() does too.
    """
    if distribution.first_stage is not None:
        raise NotImplementedError("wbwr trains on the sum of two losses, and TRL takes one. Use transformers' Trainer.")
    scores = distribution.scores() / temperature
    target, mask = labels.clamp(min=0), labels != IGNORED
    if temperature == 1.0:
        log_probs = -distribution.nll(labels)
    else:
        log_probs = scores.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    measures = {
        "entropy": lambda: checkpoint(_entropy, scores, use_reentrant=False),
        "log_sum_sq_probs": lambda: (2 * scores.detach().log_softmax(-1)).logsumexp(-1),
        "mean_logits": lambda: scores.detach().mean(-1),
        "is_top1": lambda: scores.argmax(-1) == target,
    }
    asked = {name: measure() for name, measure in measures.items() if name in outputs}
    values = {name: value.masked_fill(~mask, 0) for name, value in {"log_probs": log_probs, **asked}.items()}
    return values | {"label_mask": mask}


def _entropy(scores: Tensor) -> Tensor:
    """Of softmax(scores). Checkpointed: most trainers only print it, and no gradient means nothing is kept for it."""
    log_probs = scores.log_softmax(-1)
    return -(log_probs.exp() * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(-1)  # 0 log 0 = 0


def _options(forward: Any) -> dict[str, Any]:
    kept = inspect.getclosurevars(forward.__func__).nonlocals
    if missing := [name for name in OPTIONS if name not in kept]:
        version = getattr(sys.modules.get("trl"), "__version__", "?")
        raise NotImplementedError(
            f"trl {version} replaces the model's forward in a way this version of unbottle does not know (no "
            f"{', '.join(missing)}), and the head would be left out. Known: trl 1.16."
        )
    return {name: kept[name] for name in OPTIONS}
