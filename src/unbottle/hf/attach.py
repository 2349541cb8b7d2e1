"""attach and detach: replace the output layer of a model by a head, and undo it."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from types import FunctionType, ModuleType
from typing import Any

import torch
import transformers
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
    modeling_utils,
)

from unbottle.head import Head, HeadConfig
from unbottle.head.config import CLOSED
from unbottle.head.projection import DEFAULT_FORM
from unbottle.head.validation import check_whole
from unbottle.hf.configuration import HEAD, PREFIX, ConfigFace, face, put_on, stored_head, take_off
from unbottle.hf.model_with_head import ModelT
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.modeling_causal import CausalHead
from unbottle.hf.modeling_seq2seq import TO_ENCODER, Seq2SeqHead, remember_source
from unbottle.hf.parity import UnsupportedArchitectureError, calibrate, probe, refuse_difference, warn_of_large_steps
from unbottle.method import Method

_CLASSES: dict[type[PreTrainedModel], type[HeadMixin]] = {}  # the subclass with a head of each class of models
REGISTRY = "_CAN_RECORD_REGISTRY"  # of transformers: which outputs can be collected, by class
INSTALLED = "_output_capturing_hooks_installed"  # of transformers: set on a model whose layers have its hooks
CAPTURING = "output_capturing_hook"  # the local function that transformers registers as a hook
UNSAVED = (
    "PEFT will not save this head, because it wrapped the model before there was one. Save it with unbottle.save_head, "
    'or attach first, then call get_peft_model with modules_to_save=["head"].'
)
AUTO_CLASSES: dict[Any, Any] = {
    AutoModelForCausalLM: MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForSeq2SeqLM: MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
}


def attach(
    model: ModelT,
    method: str | Method,
    *,
    convention: str = "paper",
    form: str = DEFAULT_FORM,
    gate_start: float = CLOSED,
    neighbours: int = 4,
    check: bool = True,
) -> ModelT:
    """Give a live model a head. The model itself changes: same parameters, same names, plus `model.head`.

    A fresh head predicts what the model predicted, and `check` makes sure of it on a probe batch: an architecture whose
    output layer does something the head does not know is refused, not silently changed. Works on a PEFT model too, but
    PEFT saves only what it wrapped: attach first and name the head in `modules_to_save`, or save it with `save_head`.

    Train it as you would train the model: with the learning rate, optimizer and schedule of your recipe. The default
    `form` is made for that. `form="paper"` is the paper's parameterisation, for reproductions: the same functions,
    which on models with large hidden states (Llama and its like) need a learning rate of their own. `gate_start` is
    where PG, PS and CopyNet start: at 7 nothing is copied yet, at 0 (the paper's start; 3 for T5) so much that a fresh
    head is not the model any more, which a warning says. `neighbours` is how many words K adds for each of the context.

    In training mode a model with a head computes the loss of `labels` without the logits, which is faster and takes
    less memory: `outputs.logits` is not there then. `model(..., labels=labels, skip_logits=False)` returns them too;
    `skip_logits=True` leaves them out in evaluation as well.
    """
    method = Method.parse(method)
    target = innermost(model)
    refuse(target)
    options = {"convention": convention, "form": form, "gate_start": gate_start, "neighbours": neighbours}
    equip(target, head_config(target, method, **options), check=check)
    if target is not model:
        warnings.warn(UNSAVED, stacklevel=2)
    return model


def equip(target: PreTrainedModel, config: HeadConfig, *, check: bool = True) -> None:
    """Give a plain model the fresh head that a config describes."""
    before = probe(target) if check else None
    head = Head(config)
    weight = target.get_output_embeddings().weight
    if weight.device.type == "meta":
        head = head.to("meta")
    head = head.to(device=weight.device, dtype=weight.dtype)
    head.reset_projections()  # again: what is quiet depends on the dtype
    target.__class__ = unbottled(type(target))
    assert isinstance(target, HeadMixin)
    _install(target, head)
    try:
        calibrate(target)
        if before is not None:
            refuse_difference(target, before)
            warn_of_large_steps(target)
    except Exception:
        detach(target)
        raise


def detach(model: ModelT) -> ModelT:
    """Remove the head of a model, in place, and return the plain model."""
    target = innermost(model)
    if not isinstance(target, HeadMixin):
        raise ValueError(f"{type(target).__name__} has no head to detach.")
    if "forward" in target.__dict__:
        raise ValueError(
            "the forward of this model is wrapped (dispatched, prepared, compiled or patched by a trainer), and the "
            "wrapper would go on calling the head. Unwrap it first, or `del model.forward`."
        )
    if hook := target.__dict__.pop("head_hook", None):
        hook.remove()
    plain: Any = target.base_class
    target.__class__ = plain
    del target.head
    for part in target.modules():
        if isinstance(config := part.__dict__.get("config"), ConfigFace):
            take_off(config)
    return model


def innermost(model: object) -> Any:
    """The model itself, out of a PEFT wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def head_config(model: PreTrainedModel, method: Method, **options: Any) -> HeadConfig:
    """What a head for this model looks like; `options` are other fields of its config."""
    return HeadConfig(method=method, **options, **sizes(model))


def sizes(model: PreTrainedModel) -> dict[str, Any]:
    """The fields of a head's config that the model determines."""
    weight = model.get_output_embeddings().weight
    encoder = model.get_encoder() if model.config.is_encoder_decoder else None
    source = getattr(encoder, "config", model.config)  # FSMT's encoder has none of its own
    return {
        "hidden_size": weight.shape[1],
        "vocabulary": weight.shape[0],
        "encoder_decoder": model.config.is_encoder_decoder,
        "source_size": None if encoder is None else getattr(source, "hidden_size", None),
    }


def unbottled(base: type[PreTrainedModel]) -> type[HeadMixin]:
    """The subclass of a model's class that has a head. Auto classes find it by its config."""
    if issubclass(base, HeadMixin):
        return base
    if base in _CLASSES:
        return _CLASSES[base]
    base_config: Any = base.config_class
    mixin = Seq2SeqHead if "decoder_input_ids" in inspect.signature(base.forward).parameters else CausalHead
    config_class: Any = face(base_config)
    members = {"base_class": base, "config_class": config_class, "_auto_class": None}
    members["forward"] = _forward(mixin, base)
    members |= {"__init__": _init, "__reduce_ex__": _reduce, "__setstate__": _set_state}
    kind: type[HeadMixin] = type(PREFIX + base.__name__, (mixin, base), members | {"__module__": __name__})
    _add_to_transformers(kind)
    for auto, mapping in AUTO_CLASSES.items():
        if mapping.get(base.config_class, None) is base:
            auto.register(config_class, kind, exist_ok=True)
    _CLASSES[base] = kind
    return kind


def _forward(mixin: type[HeadMixin], base: type[PreTrainedModel]) -> Any:
    """`forward` of the mixin, whose signature has what the model's own names too: the Trainer drops other columns."""
    own, plain = inspect.signature(mixin.forward), inspect.signature(base.forward).parameters
    *named, rest = own.parameters.values()
    passed = [name for name in plain if name in TO_ENCODER] if mixin is Seq2SeqHead else [*plain]
    added = [
        plain[name].replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name in passed
        if name not in own.parameters and plain[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]

    function: Any = mixin.forward
    # a copy: a function around it would be one more frame, with graph breaks of its own where a model has some
    code = (function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    forward: Any = functools.update_wrapper(FunctionType(*code), function)
    forward.__kwdefaults__ = function.__kwdefaults__
    forward.__signature__ = own.replace(parameters=[*named, *added, rest])
    return forward


def _init(self: HeadMixin, config: PretrainedConfig, *args: object, **kwargs: object) -> None:
    """What from_pretrained and from_config call: the plain model, then the fresh head that its config describes."""
    where = f"the config of this {type(self).__name__} ({config.name_or_path or 'built in memory'}), {HEAD!r}"
    head = stored_head(getattr(config, HEAD, None), where)
    self.base_class.__init__(self, config, *args, **kwargs)
    for name, value in sizes(self).items():
        if getattr(head, name) != value:
            raise ValueError(
                f"{where}: {name} is {getattr(head, name)}, but that of the model is {value}. One of them was edited: "
                "load the plain model and attach a head to it."
            )
    _install(self, Head(head))


def _reduce(self: HeadMixin, protocol: object) -> tuple[object, ...]:
    """For pickle and copy: no module holds the class under its name, so it is made again from the base class."""
    kind: Any = unbottled(self.base_class)
    _remove_capturing_hooks(self)
    parts: tuple[object, ...] = super(kind, self).__reduce_ex__(2)
    if type(self) is not kind:  # a class derived from it, which its own module may hold
        return parts
    _, _, *state = parts
    return _empty, (self.base_class,), *state


def _empty(base: type[PreTrainedModel]) -> HeadMixin:
    kind = unbottled(base)
    return kind.__new__(kind)


def _set_state(self: HeadMixin, state: dict[str, object]) -> None:
    """Tell transformers which outputs it can collect, as the constructors do, which unpickling does not call."""
    super(unbottled(self.base_class), self).__setstate__(state)
    registry: dict[str, Any] = getattr(modeling_utils, REGISTRY, {})
    for module in self.modules():
        if isinstance(module, PreTrainedModel):
            registry.setdefault(str(type(module)), module._can_record_outputs)


def _remove_capturing_hooks(model: nn.Module) -> None:
    """Take away the hooks that collect hidden states: they are local functions, which pickle cannot write.

    transformers registers them when hidden states are first asked for, as Mi does, and so it will again.
    """
    for module in model.modules():
        if module.__dict__.pop(INSTALLED, False):
            for part in module.modules():
                hooks = part._forward_hooks
                for key in [key for key, hook in hooks.items() if getattr(hook, "__name__", "") == CAPTURING]:
                    del hooks[key]


def _add_to_transformers(model_class: type) -> None:
    """`transformers serve` takes the class that config.json names from the module transformers, so it must be there.

    That module may exist twice: one of its own files loads it once more, and who imported it before keeps the first.
    """
    holders = [getattr(module, "__dict__", {}).get("transformers") for module in [*sys.modules.values()]]
    for module in [transformers, *holders]:
        if isinstance(module, ModuleType) and module.__name__ == "transformers":
            setattr(module, model_class.__name__, model_class)


def _install(model: HeadMixin, head: Head) -> None:
    """Connect a head to its model: as an attribute, in the config, and by a hook that records the encoder input."""
    model.head = head
    put_on(model.config, head.config)
    if model.config.is_encoder_decoder:
        model.head_hook = model.get_encoder().register_forward_hook(remember_source, with_kwargs=True)


def refuse(model: object) -> None:
    """Raise an error for a model that cannot take a head."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"attach to a {name}: expected a transformers model, or a PEFT model around one.")
    if isinstance(model, HeadMixin):
        raise ValueError(f"this model already has a head ({model.head.config.method}). Use detach first.")
    if hasattr(model, "head"):
        raise UnsupportedArchitectureError(f"{name} already defines an attribute `head`.")
    if "forward" in model.__dict__:
        raise ValueError(
            f"the forward of this {name} was replaced on the instance (dispatched, prepared or patched), and the head "
            "would never be called. Attach before dispatch_model, accelerator.prepare or kernels that patch models."
        )
    output = model.get_output_embeddings()
    if output is None or not isinstance(getattr(output, "weight", None), torch.Tensor) or not model.can_generate():
        raise UnsupportedArchitectureError(f"{name} has no output embeddings to predict words with.")
    check_whole("output embeddings", output.weight)
    if model.config.is_encoder_decoder and isinstance(decoder := model.get_decoder(), GenerationMixin):
        raise UnsupportedArchitectureError(
            f"{name} is not supported: its decoder, a {type(decoder).__name__}, brings an output layer of its own."
        )
    if not output.weight.is_floating_point():
        raise UnsupportedArchitectureError(
            f"the output embeddings of this {name} are {output.weight.dtype}, and the head reads rows of them. "
            "Leave lm_head out of the quantisation."
        )


def with_head(model: object) -> HeadMixin:
    """The model inside a PEFT wrapper, or the model itself; refused if it has no head."""
    target = innermost(model)
    if not isinstance(target, HeadMixin):
        raise ValueError(f"{type(target).__name__} has no head. Give it one with unbottle.attach first.")
    return target
