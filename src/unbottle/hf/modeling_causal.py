"""Causal language models with a head: backbone, head, loss."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast, MoeCausalLMOutputWithPast
from transformers.utils import ModelOutput, can_return_tuple

from unbottle.hf.cache import add_past, find_past, refuse_foreign
from unbottle.hf.head_inputs import documents_of, packed, padding_mask, refuse_empty, shifted, states
from unbottle.hf.knobs import call_knobs
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.second_pass import SecondPass, refuse_second_pass


class CausalHead(HeadMixin):
    """`forward` of a causal model: the same inputs, and eight more that only a head knows.

    `skip_logits` computes the loss of the labels without ever having all logits; so does training, unless it is False.
    `outputs.logits` says so then when it is used, and `outputs` as a mapping has no "logits".
    `context_mask` (batch, positions) tells padding where attention_mask has another shape; `context_ids` tells the
    words where inputs_embeds are given instead of ids; `output_distribution` returns the head's Distribution too,
    `output_partitions` the partition that wrote each logit (`partitions`, an index into `partition_names`).
    `copy_bias`, `source_only` and `always_allowed` are knobs of this call: see `unbottle.Knobs`.
    """

    loss_type = property(lambda self: "ForCausalLM", lambda self, value: None)  # the Trainer counts shifted labels

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: object = None,  # two dimensions, or what attention takes: four, a dict by kind of layer
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        skip_logits: bool | None = None,
        output_distribution: bool = False,
        output_partitions: bool = False,
        context_mask: Tensor | None = None,
        context_ids: Tensor | None = None,
        copy_bias: float | None = None,
        source_only: bool | None = None,
        always_allowed: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> Any:
        if kwargs.get("cache") is not None and input_ids is not None:
            from unbottle.hf.integrations.continuous_batching import paged_step

            step = {"attention_mask": attention_mask, "position_ids": position_ids, "use_cache": False}
            return paged_step(self, input_ids, kwargs | step | {"logits_to_keep": logits_to_keep})
        refuse_foreign(past_key_values)
        refuse_empty(**{"input_ids": input_ids} if inputs_embeds is None else {"inputs_embeds": inputs_embeds})
        # As in transformers, not a parameter: the Trainer takes every parameter with "label" in its name for a column
        # that each batch has, and computes no loss in evaluation where one is missing.
        shift_labels: Tensor | None = kwargs.pop("shift_labels", None)
        knobs = call_knobs(self, copy_bias, source_only, always_allowed)
        knobs.refuse_training(labels is not None or shift_labels is not None)
        before = None if past_key_values is None else find_past(past_key_values)
        padding = attention_mask if context_mask is None else context_mask
        documents = documents_of(position_ids, padding, before, kwargs)
        mask = padding_mask(attention_mask, context_mask, "attention_mask", past=before, documents=documents)
        asked = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        if past_key_values is not None:
            kwargs["past_key_values"] = past_key_values
        if position_ids is not None:
            kwargs["position_ids"] = position_ids
        two_stages = self.head.config.method.wbwr is not None
        if past_key_values is None and attention_mask is None and packed(documents):
            use_cache = self._without_cache(use_cache, two_stages)
        outputs = self._backbone(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            use_cache=True if two_stages else use_cache,
            output_hidden_states=self._wanted_layers(asked),
            **kwargs,
        )
        cache = outputs.get("past_key_values")
        past = None if cache is None else add_past(cache)
        second_pass = None
        if two_stages:
            refuse_second_pass(self, cache)
            assert past is not None
            second_pass = SecondPass(self, cache, past)
        known = input_ids if context_ids is None else context_ids
        knobs.refuse_embeddings(known)
        if labels is not None and shift_labels is None:
            shift_labels = shifted(labels)
        prediction = self._predict(
            states(self._layers(outputs), known, mask, documents, past=past),
            past=past,
            labels=shift_labels,
            num_items=num_items_in_batch,
            logits_to_keep=logits_to_keep,
            skip_logits=skip_logits,
            keep_distribution=output_distribution or output_partitions,
            second_pass=second_pass,
            knobs=knobs,
        )
        kind: type[ModelOutput] = CausalLMOutputWithPast
        router = {}
        if outputs.get("router_logits") is not None:
            kind = MoeCausalLMOutputWithPast
            aux = self._load_balancing_loss(outputs.router_logits, attention_mask, kwargs)
            router = {"aux_loss": aux, "router_logits": outputs.router_logits}
            if aux is not None and prediction.loss is not None:
                weight = self.config.get_text_config().router_aux_loss_coef
                prediction = prediction._replace(loss=prediction.loss + weight * aux.to(prediction.loss.device))
        return self._output(
            kind,
            prediction,
            logits_to_keep,
            output_partitions=output_partitions,
            output_distribution=output_distribution,
            past_key_values=None if use_cache is False else cache,
            hidden_states=outputs.get("hidden_states") if asked else None,
            attentions=outputs.get("attentions"),
            **router,
        )

    def _without_cache(self, use_cache: bool | None, two_stages: bool) -> bool:
        """Where there is a cache, transformers lets the documents of a packed row attend to each other."""
        if use_cache or two_stages:
            raise ValueError(
                f"several documents in one row with {'wbwr' if two_stages else 'use_cache=True'}: attention that fills "
                "a cache does not keep them apart. One document per row, with padding and an attention_mask, works."
            )
        return False

    def _load_balancing_loss(self, router_logits: Any, mask: object, kwargs: dict) -> Tensor | None:
        """What the model's own class adds to its loss, by the model's own function; None where nobody asks for it."""
        config = self.config.get_text_config()
        balance = getattr(sys.modules[self.base_class.__module__], "load_balancing_loss_func", None)
        if balance is None or not kwargs.get("output_router_logits", getattr(config, "output_router_logits", False)):
            return None
        experts = next(getattr(config, n) for n in ("num_local_experts", "num_experts") if hasattr(config, n))
        loss: Tensor = balance(router_logits, experts, config.num_experts_per_tok, mask)
        return loss
