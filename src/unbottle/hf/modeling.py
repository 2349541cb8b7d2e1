"""HeadMixin: what causal and encoder-decoder models with a head have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, StaticCache
from transformers.utils import ModelOutput

from unbottle.head import Embedding, Head, Knobs, Past, Prediction, Source, States
from unbottle.head.inputs import SecondPass
from unbottle.hf.cache import StaticPast, add_past, find_past, longest
from unbottle.hf.checkpoint import Checkpoint
from unbottle.hf.integrations.guards import WRAPPER, guarded_forward, head_is_active, onloaded, release_output
from unbottle.hf.knobs import call_knobs, current_knobs, knob_scope
from unbottle.hf.output_scaling import Quirks
from unbottle.hf.parity import UnsupportedArchitectureError
from unbottle.ops import DenseLogits

ADVICE = (
    "the loss was computed without logits, as always in training: they would take batch x positions x vocabulary "
    "numbers. Call model(..., skip_logits=False) to get them, or model.eval()."
)


class SkippedLogitsError(AttributeError, TypeError):
    """Logits are used that were not computed."""


class SkippedLogits:
    """A placeholder that raises an error, with advice, when it is used as a tensor.

    It is an attribute only. As a mapping, and as a tuple, an output has no logits then: the Trainer, accelerate and
    distributed wrappers, which gather what outputs contain, treat them as None.
    """

    def __repr__(self) -> str:
        return "SkippedLogits()"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # copy, pickle, numpy and others ask what an object can do
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise SkippedLogitsError(f"outputs.logits.{name}: {ADVICE}")

    @classmethod
    def __torch_function__(cls, function: object, types: object, args: object = (), kwargs: object = None) -> NoReturn:
        raise SkippedLogitsError(f"torch.{getattr(function, '__name__', function)} of outputs.logits: {ADVICE}")


def _refuses(operation: str) -> Callable[..., NoReturn]:
    def refuse(self: SkippedLogits, *args: object) -> NoReturn:
        raise SkippedLogitsError(f"{operation} of outputs.logits: {ADVICE}")

    return refuse


OPERATIONS = ("getitem", "iter", "len", "float", "array", "add", "sub", "mul", "truediv", "matmul", "neg")
for _name in OPERATIONS:
    setattr(SkippedLogits, f"__{_name}__", _refuses(_name))


class HeadMixin(Checkpoint):
    """Comes before the model's own class: same parameters, same names, another output layer under `head`."""

    head: Head
    base_class: type[PreTrainedModel]  # the model's own class, set when the subclass is made

    # -- from hidden states to logits

    @property
    def _backbone(self) -> nn.Module:
        """What stands under the output layer. Llama 4 and Mllama give a name for it that their text models lack."""
        backbone: nn.Module = self.model if self.base_model is self else self.base_model
        return backbone

    def _embedding(self) -> Embedding:
        return Quirks.of(self.config).embedding(self)

    @property
    def _num_layers(self) -> int:
        """Of what stands under the head."""
        return int(self.config.get_text_config().num_hidden_layers)

    def _wanted_layers(self, asked: bool | None = False) -> bool | list[int]:
        """What to pass as output_hidden_states: all if asked for, else the few that Mi needs."""
        depth, count = self.head.config.block[0], self._num_layers
        return True if asked else [*range(count - depth, count - 1)] if depth > 1 else False

    def _layers(self, outputs: Any) -> Tensor:
        """B T L D, the last layer first: what the plain output layer would receive, then raw hidden states."""
        last: Tensor = outputs.last_hidden_state
        scale = Quirks.of(self.config).hidden_scale
        top = last if scale == 1.0 else last * scale
        if last.shape[-1] != self.head.config.hidden_size:
            raise UnsupportedArchitectureError(
                f"{self._get_name()} is not supported: its states are {last.shape[-1]} wide and its output embeddings "
                f"{self.head.config.hidden_size}, and the head does not know what its output layer does between them."
            )
        depth, width = self.head.config.block
        if depth == 1:
            return top[:, :, None]
        below = [*(outputs.get("hidden_states") or ())][-depth:-1][::-1]
        if len(below) != depth - 1 or not all(state is not None and state.shape == last.shape for state in below):
            raise UnsupportedArchitectureError(
                f"mi:{depth}x{width} reads {depth} layers, and {self._get_name()} does not return that many of the "
                f"shape of its last one. mi:1x{width} reads the last layer only."
            )
        return torch.stack([top, *below], dim=2)

    def _predict(
        self,
        states: States,
        *,
        past: Past | None = None,
        labels: Tensor | None = None,
        num_items: Tensor | int | None = None,
        logits_to_keep: int | Tensor = 0,
        skip_logits: bool | None = None,
        keep_distribution: bool = False,
        source: Source | None = None,
        second_pass: SecondPass | None = None,
        knobs: Knobs | None = None,
    ) -> Prediction:
        """Call the head: the loss, and what the model returns as its logits at the positions to keep."""
        if skip_logits is None:
            skip_logits = self.training and self.head.path != "dense" and not keep_distribution
        output = "distribution" if keep_distribution else "logits"
        if labels is not None and skip_logits:
            output = "loss"
        positions: slice | Tensor | None = None
        if isinstance(logits_to_keep, int):
            positions = slice(-logits_to_keep, None)
        elif logits_to_keep.ndim < 2:
            positions = logits_to_keep
        with onloaded(self.get_output_embeddings()):
            prediction: Prediction = self.head(
                states,
                self._embedding(),
                source=source,
                past=past,
                second_pass=second_pass,
                knobs=knobs,
                labels=None if labels is None else labels.to(states.layers.device),
                num_items=num_items.to(states.layers.device) if isinstance(num_items, Tensor) else num_items,
                positions=positions,
                output=output,
            )
        if prediction.logits is None:
            return prediction
        return prediction._replace(logits=_of_each_row(prediction.logits.to(states.layers.dtype), logits_to_keep))

    @staticmethod
    def _output(
        kind: type[ModelOutput],
        prediction: Prediction,
        logits_to_keep: int | Tensor,
        *,
        output_partitions: bool,
        output_distribution: bool = False,
        **fields: object,
    ) -> Any:
        """What the model returns. Where logits were skipped, a placeholder says so; a compiled graph leaves None there.

        output_partitions: who wrote the logit of each word last (B T V, int8), an index into the names.
        """
        output = kind(loss=prediction.loss, logits=prediction.logits, **fields)
        if prediction.logits is None and not torch.compiler.is_compiling():
            object.__setattr__(output, "logits", SkippedLogits())
        if output_distribution:
            output["distribution"] = prediction.distribution
        if output_partitions:
            if prediction.distribution is None:
                raise ValueError(
                    "output_partitions=True with skip_logits=True: partitions are returned for every logit."
                )
            writer, names = DenseLogits.of(prediction.distribution.logits[0]).writers()
            output["partitions"], output["partition_names"] = _of_each_row(writer, logits_to_keep), names
        return output

    # -- generation

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: object,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        super()._prepare_cache_for_generation(
            generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
        )
        cache: Any = model_kwargs.get("past_key_values")
        own = getattr(cache, "self_attention_cache", cache)
        if isinstance(own, DynamicCache) and own.layers:  # before a graph of the user's reads it
            add_past(cache)
        elif isinstance(own, StaticCache):
            add_past(cache, max(max_cache_length, *(longest(layer) for layer in own.layers)))

    def _valid_auto_compile_criteria(self, model_kwargs: dict[str, Any], *args: Any) -> bool:
        """A head's state that grows, as beside a static cache of sliding windows only, would compile at every step."""
        cache = model_kwargs.get("past_key_values")
        past = find_past(cache) if isinstance(cache, Cache) else None
        grows = past is not None and not isinstance(past, StaticPast)
        return not grows and bool(super()._valid_auto_compile_criteria(model_kwargs, *args))

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, *, inputs_embeds: Tensor | None = None, **kwargs: Any
    ) -> dict:
        """As the model's own, with what the head needs besides: the two-dimensional mask, whatever attention gets, and
        the words of a prompt of embeddings, if they are known."""
        prepared: dict = super().prepare_inputs_for_generation(input_ids, inputs_embeds=inputs_embeds, **kwargs)
        mask = kwargs.get("decoder_attention_mask" if self.config.is_encoder_decoder else "attention_mask")
        if mask is None:
            inputs = [prepared.get(name) for name in ("decoder_input_ids", "input_ids", "inputs_embeds")]
            shape = next(tensor.shape[:2] for tensor in inputs if tensor is not None)
            mask = torch.ones(shape, dtype=torch.bool, device=input_ids.device)
        prepared["context_mask"] = mask
        known, embeds = prepared.pop("context_ids", input_ids), prepared.get("inputs_embeds")
        if embeds is not None and not self.config.is_encoder_decoder and known.shape[1] >= embeds.shape[1]:
            prepared["context_ids"] = known[:, -embeds.shape[1] :]
        return prepared

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        """What the model's own `forward` takes by name passes: the head's takes the rest of it as keywords."""
        known = inspect.signature(self.base_class.forward).parameters
        super()._validate_model_kwargs({name: value for name, value in model_kwargs.items() if name not in known})

    @property
    def knobs(self) -> Knobs:
        """The knobs of a call that names none: of the `unbottle.knobs` block it is in, or those set on the head."""
        return current_knobs(self)

    def generate(
        self,
        *args: Any,
        copy_bias: float | None = None,
        source_only: bool | None = None,
        always_allowed: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As the model's own, with knobs for this call alone: see `unbottle.Knobs`. An assistant model has its own."""
        ends = kwargs.get("eos_token_id")
        if ends is None:
            settings = args[1] if len(args) > 1 else kwargs.get("generation_config")
            ends = getattr(settings, "eos_token_id", None)
        with knob_scope(self, call_knobs(self, copy_bias, source_only, always_allowed, ends)):
            return super().generate(*args, **kwargs)

    def init_continuous_batching(self, *args: Any, **kwargs: Any) -> Any:
        """As the model's own, and the pages keep the head's state. Knobs are those of the moment, for all requests."""
        try:
            from unbottle.hf.integrations.continuous_batching import manager_with_state
        except ImportError as error:
            raise NotImplementedError("continuous batching with a head needs transformers 5.22 or newer.") from error
        return manager_with_state(self, super().init_continuous_batching(*args, **kwargs))

    # -- guards

    head_is_active = head_is_active

    def __setattr__(self, name: str, value: object) -> None:
        """Libraries replace `forward` on the instance: only by what still reaches the head."""
        super().__setattr__(name, guarded_forward(self, value) if name == "forward" else value)
        if name == "peft_config" or type(value).__name__ == WRAPPER:  # a second adapter changes peft_config in place
            release_output(self, self.__dict__.get("peft_config"))

    # -- the library's hooks

    def _get_name(self) -> str:
        """The base class's: the Trainer decides by this name whether labels are shifted."""
        return self.base_class.__name__

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Parameters of the head that no checkpoint had start as the head starts them, not as the model's layers do."""
        if "head" not in self._modules or not any(module is mine for mine in self.head.modules()):
            super()._init_weights(module)
            return
        if module is self.head:
            self.head.set_mark()
        if not hasattr(module, "reset_parameters"):
            return
        parameters = module.parameters(recurse=False)
        loaded = [(p, p.clone()) for p in parameters if getattr(p, "_is_hf_initialized", False)]
        module.reset_parameters()  # type: ignore[operator]
        for parameter, value in loaded:
            parameter.copy_(value)


def _of_each_row(values: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """Where logits_to_keep names positions row by row (a mask, or indices): those; otherwise they are kept already."""
    if isinstance(logits_to_keep, int) or logits_to_keep.ndim < 2:
        return values
    by_mask = logits_to_keep.dtype == torch.bool
    return values[logits_to_keep] if by_mask else values.take_along_dim(logits_to_keep[..., None], dim=1)
