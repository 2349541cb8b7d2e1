"""HeadMixin: what causal and encoder-decoder models with a head have in common, saving and loading included."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, StaticCache
from transformers.utils import CONFIG_NAME, ModelOutput

from unbottle.head import Distribution, Embedding, Head, Knobs, Past, Prediction, Source, States
from unbottle.head.inputs import SecondPass
from unbottle.hf.cache import StaticPast, add_past, find_past, longest
from unbottle.hf.configuration import NO_CODE, put_on
from unbottle.hf.integrations.guards import guarded_forward, head_is_active, onloaded
from unbottle.hf.integrations.peft import WRAPPER, release_output
from unbottle.hf.knob_scope import call_knobs, current_knobs, knob_scope
from unbottle.hf.model_card import write_card
from unbottle.hf.output_scaling import Quirks
from unbottle.hf.parity import UnsupportedArchitectureError, calibrate
from unbottle.hf.weight_checks import (
    HEAD_WEIGHTS,
    MISSING,
    UNEXPECTED,
    LoadingInfo,
    loading_problems,
    refuse_broken_values,
    refuse_other_sizes,
    refuse_wrong_weights,
)
from unbottle.ops import DenseLogits

if TYPE_CHECKING:
    from typing import Any as Model  # what the mixin is mixed into: a model class
else:
    Model = object


class Checkpoint(Model):
    """A directory that names its head, has a card, and holds weights as safetensors only."""

    head: Head

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], is_main_process: bool = True, *args: object, **kwargs: object
    ) -> None:
        """As any model's. The config is brought up to date first: models may share one, and heads may change."""
        put_on(self.config, self.head.config)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process and not getattr(self, "_hf_peft_config_loaded", False):  # PEFT saves its adapter only
            write_card(self, save_directory)

    def _upload_modified_files(
        self, working_dir: str | os.PathLike[str], repo_id: str, *args: object, **kwargs: object
    ) -> object:
        """The last step of every push, which has just put an empty card into the directory if the Hub had none."""
        write_card(self, working_dir, repo_id=repo_id)
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: object, **kwargs: Any
    ) -> Any:
        """As any model's, but it never unpickles unless told to by `use_safetensors=False`.

        A head that was saved is there as a whole, or it is refused. Where the checkpoint is one of a plain model and
        the config was given, the head is fresh and fitted to the model, as attach does.
        """
        path, config = pretrained_model_name_or_path, kwargs.get("config")
        info_wanted = kwargs.pop("output_loading_info", False)
        subfolder = kwargs.get("subfolder") or ""
        described = config
        if config is None and (Path(path) / subfolder / CONFIG_NAME).is_file():
            described = cls.config_class.from_pretrained(path, subfolder=subfolder, **NO_CODE)
        if isinstance(described, PretrainedConfig) and not kwargs.get("ignore_mismatched_sizes", False):
            refuse_other_sizes(path, subfolder, cls, described)
        is_own = config is None or str(getattr(config, "name_or_path", config)) == str(path)
        model, info = cls.load_with_info(path, *args, **kwargs)
        head = {f"{HEAD_WEIGHTS}{name}" for name in model.head.state_dict()}
        wrong = loading_problems(info, (MISSING, UNEXPECTED), HEAD_WEIGHTS)
        if not is_own and {*wrong[MISSING]} >= head:
            wrong[MISSING] = []
        refuse_wrong_weights(path, wrong)
        refuse_broken_values(path, model.head.state_dict(prefix=HEAD_WEIGHTS))
        return (model, info) if info_wanted else model

    @classmethod
    def load_with_info(cls, *args: object, **kwargs: object) -> tuple[Self, LoadingInfo]:
        """The model of a checkpoint, whatever is missing there, and what transformers says about its loading."""
        kwargs.setdefault("use_safetensors", True)
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if any(name.startswith(HEAD_WEIGHTS) for name in info["missing_keys"]):
            calibrate(model)
        return model, info

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: object, **kwargs: object) -> nn.Module:
        """As any model's, and the head's config knows. Fewer words than a reranker's k are refused first."""
        if new_num_tokens is not None:
            replace(self.head.config, vocabulary=new_num_tokens)
        embeddings: nn.Module = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.head.config = replace(self.head.config, vocabulary=self.get_output_embeddings().weight.shape[0])
        put_on(self.config, self.head.config)
        return embeddings


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

    def _layers(self, last: Tensor, hidden_states: Sequence[Tensor] | None) -> Tensor:
        """B T L D, the last layer first: what the plain output layer would receive, then raw hidden states."""
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
        below = [*(hidden_states or ())][-depth:-1][::-1]
        if len(below) != depth - 1 or not all(state is not None and state.shape == last.shape for state in below):
            raise UnsupportedArchitectureError(
                f"mi:{depth}x{width} reads {depth} layers, and {self._get_name()} does not return that many of the "
                f"shape of its last one. mi:1x{width} reads the last layer only."
            )
        return torch.stack([top, *below], dim=2)

    def _wanted_layers(self, asked: bool | None, count: int) -> bool | list[int]:
        """What to pass as output_hidden_states: all if asked for, else the few that Mi needs."""
        depth = self.head.config.block[0]
        return True if asked else [*range(count - depth, count - 1)] if depth > 1 else False

    def _predict(
        self,
        states: States,
        *,
        past: Past | None,
        labels: Tensor | None,
        num_items: Tensor | int | None,
        logits_to_keep: int | Tensor,
        skip_logits: bool | None,
        keep_distribution: bool = False,
        source: Source | None = None,
        second_pass: SecondPass | None = None,
        knobs: Knobs | None = None,
    ) -> Prediction:
        """Call the head: the loss, and what the model returns as its logits at the positions to keep."""
        if skip_logits is None:
            skip_logits = self.training and self.head.path != "dense" and not keep_distribution
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
                output="loss"
                if labels is not None and skip_logits
                else "distribution"
                if keep_distribution
                else "logits",
            )
        if prediction.logits is None:
            return prediction
        return prediction._replace(logits=_of_each_row(prediction.logits.to(states.layers.dtype), logits_to_keep))

    @staticmethod
    def _add_partitions(output: ModelOutput, distribution: Distribution | None, logits_to_keep: int | Tensor) -> None:
        """output_partitions: who wrote the logit of each word last (B T V, int8), an index into the names."""
        if distribution is None:
            raise ValueError("output_partitions=True with skip_logits=True: partitions are returned for every logit.")
        writer, names = DenseLogits.of(distribution.logits[0]).writers()
        output["partitions"], output["partition_names"] = _of_each_row(writer, logits_to_keep), names

    # -- the cache

    def _past(self, cache: Cache | None) -> Past | None:
        """The head's own past, kept in the model's cache. Called after the backbone, which may have made its layers."""
        return None if cache is None else add_past(cache)

    @staticmethod
    def _past_before(cache: Cache | None) -> Past | None:
        return None if cache is None else find_past(cache)

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

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: Any = None,  # int; transformers 5.12 gives a tensor too
        past_key_values: Cache | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict:
        """As the model's own, and the two-dimensional mask goes along: the head needs it, whatever attention gets."""
        mask = kwargs.get("decoder_attention_mask") if self.config.is_encoder_decoder else attention_mask
        prepared: dict = super().prepare_inputs_for_generation(
            input_ids,
            next_sequence_length=next_sequence_length,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            is_first_iteration=is_first_iteration,
            **kwargs,
        )
        if mask is None:
            inputs = [prepared.get(name) for name in ("decoder_input_ids", "input_ids", "inputs_embeds")]
            shape = next(tensor.shape[:2] for tensor in inputs if tensor is not None)
            mask = torch.ones(shape, dtype=torch.bool, device=input_ids.device)
        prepared["context_mask"] = mask
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


def padding_mask(
    mask: object, context_mask: Tensor | None, name: str, *, past: Past | None, documents: Tensor | None
) -> Tensor | None:
    """Which new positions are no padding: `context_mask`, a mask of two dimensions, or what one of four says.

    A head reads the earlier words of its document, so a mask of four dimensions must let attention see the same: it is
    refused where it does not, because the words would be those of other positions.
    """
    if context_mask is not None:
        return context_mask
    if mask is None or (isinstance(mask, Tensor) and mask.ndim == 2):
        return mask
    if not isinstance(mask, Tensor) or mask.ndim != 4 or torch.compiler.is_compiling():
        shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(
            f"{name} is {shape}: the head needs to know padding; give context_mask (batch, positions) too."
        )
    seen = (mask if mask.dtype == torch.bool else mask == 0)[:, 0]  # B T N
    count = seen.shape[1]
    start = len(past) if isinstance(past, StaticPast) else seen.shape[2] - count
    new = seen[:, :, start : start + count]
    real = new.diagonal(dim1=1, dim2=2)
    expected = real[:, None] & torch.ones_like(new[0]).tril()
    if documents is not None:
        expected = expected & (documents[:, None] == documents[..., None])
    if not torch.equal(new & real[..., None], expected & real[..., None]):
        raise ValueError(
            f"{name} of four dimensions lets positions see other words than those before them, which is what the head "
            "reads. Give context_mask (batch, positions) to say that this is meant, and position_ids that start again "
            "at each document."
        )
    return real
