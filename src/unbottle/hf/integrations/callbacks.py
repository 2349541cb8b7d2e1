"""HeadGradientCallback: a training that leaves out the head stops at its first step.

A file of its own, because TrainerCallback imports PEFT and more where they are installed.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerState, TrainingArguments
from transformers import TrainerControl as Control

from unbottle.hf.attach import innermost
from unbottle.hf.integrations.guards import BypassedHeadError


class HeadGradientCallback(TrainerCallback):
    """Stops training at its first step if the head is frozen, or if one of its parameters got no gradient.

    For any Trainer: `Trainer(..., callbacks=[HeadGradientCallback()])`. Not for DeepSpeed, which hides gradients.
    """

    def __init__(self) -> None:
        self.checked = False

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: Any) -> None:
        self.checked = False  # one callback may serve several trainings

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: Control, **kwargs: Any
    ) -> None:
        if not self.checked:
            refuse_untrained(kwargs.get("model"))
            self.checked = True


def refuse_untrained(model: nn.Module | None) -> None:
    """After a backward pass: every trainable parameter of the head must have a gradient, and some must be trainable."""
    target = innermost(model)
    head = getattr(target, "head", None)
    if head is None:
        raise BypassedHeadError(f"{type(target).__name__} has no head to train. Use attach before the Trainer is made.")
    trainable = {name: parameter for name, parameter in head.named_parameters() if parameter.requires_grad}
    if not trainable and any(True for _ in head.parameters()):
        raise BypassedHeadError(
            "every parameter of the head is frozen, so it would stay what it is. With PEFT, name it in the config: "
            'LoraConfig(..., modules_to_save=["head"]).'
        )
    missing = [name for name, parameter in trainable.items() if parameter.grad is None]
    if missing:
        raise BypassedHeadError(
            f"{len(missing)} of {len(trainable)} head parameters got no gradient, {missing[0]} for one: the loss was "
            "computed without the head. Look for what replaced the model's forward or the Trainer's compute_loss."
        )
