"""What models do to their logits, as data. A fresh head equals the plain model: attach notices a missing row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from unbottle.head import Embedding

# gemma 2, 3, 3n, 4, vaultgemma, nanochat; recurrent_gemma; xlstm
SOFTCAP = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
MULTIPLY = ("logit_scale", "lm_head_multiplier")  # cohere; falcon_h1
DIVIDE = ("logits_scaling", "logits_mup_width_multiplier")  # granite; inkling
MULTIPLY_LOGITS_SCALING = ("hyperclovax",)  # where logits_scaling multiplies instead
SCALE_HIDDEN_ALWAYS = ("umt5", "switch_transformers")  # h * d_model ** -0.5, whatever the config says
SCALE_HIDDEN = "scale_decoder_outputs"  # t5, mt5, longt5: the same, if the config says so
SCALE_HIDDEN_TIED = ("longt5",)  # earlier versions of transformers say so by tied embeddings


@dataclass(frozen=True)
class Quirks:
    """logits = cap(scale * W (hidden_scale * h) + bias)."""

    hidden_scale: float = 1.0
    scale: float = 1.0
    softcap: float | None = None

    @staticmethod
    def of(config: PretrainedConfig) -> Quirks:
        values = vars(config.get_text_config(decoder=True))

        def number(names: tuple[str, ...]) -> float | None:
            return next((values[name] for name in names if values.get(name)), None)

        scale = number(MULTIPLY) or 1.0
        divisor = number(DIVIDE) or 1.0
        by_multiplying = config.model_type in MULTIPLY_LOGITS_SCALING
        unsaid = config.model_type in SCALE_HIDDEN_TIED and config.tie_word_embeddings
        scaled = config.model_type in SCALE_HIDDEN_ALWAYS or getattr(config, SCALE_HIDDEN, unsaid)
        return Quirks(
            hidden_scale=config.d_model**-0.5 if scaled else 1.0,
            scale=scale * divisor if by_multiplying else scale / divisor,
            softcap=number(SOFTCAP),
        )

    def embedding(self, model: PreTrainedModel) -> Embedding:
        """The model's output embeddings, as the head reads them."""
        output = model.get_output_embeddings()
        return Embedding(weight=_weight(output), bias=_bias(model, output), scale=self.scale, softcap=self.softcap)


def _weight(output: nn.Module) -> Tensor:
    """Of the output embeddings, with what LoRA adds to them; its dropout, of their inputs, has no effect here."""
    adapters = _adapters(output)
    weight = output.weight
    if not isinstance(weight, Tensor):
        raise TypeError(
            f"the output embeddings have become a {type(output).__name__}, whose weight the head cannot read. Leave "
            "them out of the quantisation."
        )
    for adapter in adapters:
        weight = weight + output.get_delta_weight(adapter).to(weight.dtype)  # type: ignore[operator]
    return weight


def _adapters(output: Any) -> list[str]:
    """Adapters that PEFT's LoRA adds to this layer now. Merged ones are in its weight, unless they are disabled."""
    if not hasattr(output, "merged") or hasattr(output, "trainable_tokens_delta"):  # none, or its weight has them
        return []
    if output.disable_adapters:
        if output.merged:
            output.unmerge()  # as PEFT does when the layer is called
        return []
    if output.merged:
        return []
    for adapter in output.active_adapters:
        variant = adapter in getattr(output, "lora_variant", {}) or getattr(output, "lora_bias", {}).get(adapter)
        if variant or not hasattr(output, "lora_A"):
            raise NotImplementedError(
                f"adapter {adapter!r}: of all adapters, a head reads plain LoRA of the output embeddings only, without "
                "bias and variants such as DoRA. Leave the output embeddings out of target_modules."
            )
    return [name for name in output.active_adapters if name in output.lora_A]


def _bias(model: PreTrainedModel, output: nn.Module) -> Tensor | None:
    """lm_head.bias (phi, gpt-j), final_logits_bias (bart, marian, ...), or both."""
    attributes = [getattr(output, "bias", None), getattr(model, "final_logits_bias", None)]
    biases = [bias.flatten() for bias in attributes if isinstance(bias, torch.Tensor)]
    return sum(biases[1:], start=biases[0]) if biases else None
