"""Encoder-decoder models with a head: encoder, decoder, head, loss."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import ModelOutput, can_return_tuple

from unbottle.head import Source
from unbottle.hf.cache import add_past, find_past, refuse_foreign
from unbottle.hf.head_inputs import padding_mask, refuse_empty, states
from unbottle.hf.knobs import call_knobs
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.second_pass import refuse_second_pass

TO_ENCODER = ("global_attention_mask",)  # what encoders take besides: LED's
DECODES_INPUT = ("bart", "bigbird_pegasus", "led", "mbart", "mvp", "plbart")  # so does the decoder, if it gets nothing
# Accepted and not needed: the decoder counts its positions itself, and no encoder here tells segments apart, for which
# many tokenizers return ids all the same.
NOT_NEEDED = ("cache_position", "token_type_ids")


def remember_source(encoder: nn.Module, args: tuple, kwargs: dict, output: object) -> object:
    """A forward hook of the encoder: the words it read ride on its output, which generate() carries along for beams.

    As they are: to compute here would cost compiled models that break in the encoder (BART) a graph of its own.
    """
    if isinstance(output, ModelOutput):
        last: Tensor = output[0]
        ids = kwargs.get("input_ids", args[0] if args else None)
        mask = kwargs.get("attention_mask")
        batch, tokens = last.shape[:2]
        if ids is None:  # embeddings were given: words unknown, nothing to read
            ids = torch.zeros((batch, tokens), dtype=torch.long, device=last.device)
            mask = torch.zeros_like(ids)
        output["source_ids"] = ids
        if isinstance(mask, Tensor) and mask.ndim == 2:
            output["source_mask"] = mask
    return output


class Seq2SeqHead(HeadMixin):
    """`forward` of an encoder-decoder model: the same inputs, `logits_to_keep`, and six more that only a head knows.

    `skip_logits` computes the loss of the labels without ever having all logits; so does training, unless it is False.
    `outputs.logits` says so then when it is used, and `outputs` as a mapping has no "logits".
    `context_mask` is that of the decoder; `output_partitions` returns the partition that wrote each logit too
    (`partitions`, an index into `partition_names`). `copy_bias`, `source_only` and `always_allowed` are knobs of this
    call: see `unbottle.Knobs`.
    """

    loss_type = property(lambda self: None, lambda self, value: None)  # the Trainer counts all labels: none is shifted

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: object = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        skip_logits: bool | None = None,
        output_partitions: bool = False,
        context_mask: Tensor | None = None,
        copy_bias: float | None = None,
        source_only: bool | None = None,
        always_allowed: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> Any:
        self._refuse_unknown(kwargs)
        if encoder_outputs is None:
            refuse_empty(input_ids=input_ids, inputs_embeds=inputs_embeds)
        refuse_empty(decoder_input_ids=decoder_input_ids, decoder_inputs_embeds=decoder_inputs_embeds, labels=labels)
        refuse_foreign(past_key_values)
        if self.head.config.method.wbwr is not None:
            refuse_second_pass(self, past_key_values)
        knobs = call_knobs(self, copy_bias, source_only, always_allowed)
        knobs.refuse_training(labels is not None)
        before = None if past_key_values is None else find_past(past_key_values)
        mask = padding_mask(decoder_attention_mask, context_mask, "decoder_attention_mask", past=before, documents=None)
        asked = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        attentions = {} if output_attentions is None else {"output_attentions": output_attentions}
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                output_hidden_states=asked,
                return_dict=True,
                **attentions,
                **{name: kwargs[name] for name in TO_ENCODER if name in kwargs},
            )
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if labels is not None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            elif input_ids is not None and self.config.model_type in DECODES_INPUT:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(input_ids)
        if labels is not None:
            use_cache = False
        reads_source = self.head.reads_source(knobs)
        source = self._source(encoder_outputs, input_ids, attention_mask, reads_source)
        outputs = self.get_decoder()(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            past_key_values=past_key_values,
            encoder_hidden_states=source.states,
            encoder_attention_mask=attention_mask,
            use_cache=use_cache,
            output_hidden_states=self._wanted_layers(asked),
            return_dict=True,
            **attentions,
        )
        cache = outputs.get("past_key_values")
        past = None if cache is None else add_past(cache)
        start = self.config.pad_token_id
        prediction = self._predict(
            states(self._layers(outputs), decoder_input_ids, mask, None, past=past, unreadable_start=start),
            past=past,
            labels=labels,
            num_items=num_items_in_batch,
            logits_to_keep=logits_to_keep,
            skip_logits=skip_logits,
            keep_distribution=output_partitions,
            source=source,
            knobs=knobs,
        )
        return self._output(
            Seq2SeqLMOutput,
            prediction,
            logits_to_keep,
            output_partitions=output_partitions,
            past_key_values=cache,
            decoder_hidden_states=outputs.get("hidden_states") if asked else None,
            decoder_attentions=outputs.get("attentions"),
            cross_attentions=outputs.get("cross_attentions"),
            encoder_last_hidden_state=source.states,
            encoder_hidden_states=_part(encoder_outputs, "hidden_states", 1),
            encoder_attentions=_part(encoder_outputs, "attentions", 2),
        )

    def _refuse_unknown(self, kwargs: dict[str, object]) -> None:
        """An argument that nothing here reads would be lost without a word; None says nothing."""
        for name, value in kwargs.items():
            if name not in (*TO_ENCODER, *NOT_NEEDED) and value is not None:
                known = [name for name in inspect.signature(self.forward).parameters if name != "kwargs"]
                raise TypeError(
                    f"forward() of this {self.base_class.__name__} with a head got an unexpected keyword argument "
                    f"{name!r}. Known: {', '.join(dict.fromkeys((*known, *TO_ENCODER)))}."
                )

    @property
    def _num_layers(self) -> int:
        for name in ("num_decoder_layers", "decoder_layers"):  # not of get_text_config: BART's says 12 whatever it has
            if count := getattr(self.config, name, None):
                return int(count)
        return int(self.config.get_text_config(decoder=True).num_hidden_layers)

    def _source(
        self, encoder_outputs: Any, input_ids: Tensor | None, attention_mask: Tensor | None, reads_source: bool
    ) -> Source:
        last = encoder_outputs[0]
        ids = _part(encoder_outputs, "source_ids", None)
        mask = _part(encoder_outputs, "source_mask", None)
        if ids is None:
            if input_ids is None and reads_source:
                raise ValueError(
                    f"method {str(self.head.config.method)!r} reads the words of the encoder input, and these "
                    "encoder_outputs do not carry them. Give input_ids (and attention_mask) too."
                )
            ids = last.new_zeros(last.shape[:2], dtype=torch.long) if input_ids is None else input_ids
            mask = attention_mask
        return Source(states=last, ids=ids, mask=None if mask is None else mask.bool())


def _part(outputs: Any, name: str, index: int | None) -> Any:
    if isinstance(outputs, ModelOutput):
        return outputs.get(name)
    value = outputs[index] if index is not None and len(outputs) > index else None
    return value if isinstance(value, tuple) else None  # an encoder with the words it read has them in second place
