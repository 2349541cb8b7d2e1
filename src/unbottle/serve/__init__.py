"""Engines that keep many requests in pages: what a head remembers lies there too. See docs/serving.md.

This file says which models and versions of vLLM are served with a head, and registers them. It imports nothing heavy:
every vLLM process reads it.
"""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import Version

VLLM = ">=0.32,<0.33"  # the versions that `make test-serving` was run with

BACKEND = ("vllm.model_executor.models.transformers", "TransformersForCausalLM")
OWN = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3",
    "GPT2LMHeadModel": "gpt2",
    "Phi3ForCausalLM": "phi3",
    "GraniteForCausalLM": "granite",
}
BY_BACKEND = ("GPTNeoXForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM", "PhiForCausalLM", "SmolLM3ForCausalLM")

# The architecture as transformers names it, and the module and class of vLLM that runs it
BASES = {name: (f"vllm.model_executor.models.{module}", name) for name, module in OWN.items()} | dict.fromkeys(
    BY_BACKEND, BACKEND
)
# Where the layers are, of those that do not give states of lower layers by the interface of EAGLE-3
LAYERS = {
    "GemmaForCausalLM": "model.layers",
    "Gemma2ForCausalLM": "model.layers",
    "Gemma3ForCausalLM": "model.layers",
    "GPT2LMHeadModel": "transformer.h",
}


def register_with_vllm() -> None:
    """Called by vLLM in each of its processes: lets it read the config of a saved model, and find its class."""
    from vllm import ModelRegistry, __version__

    import unbottle.hub  # noqa: F401  AutoConfig knows the model type from now on
    from unbottle.hf.configuration import PREFIX

    module = "unbottle.serve.vllm" if is_tested(__version__) else __name__
    for name in registered():
        ModelRegistry.register_model(PREFIX + name, f"{module}:{PREFIX}{name}")


def registered() -> list[str]:
    """Names that vLLM is told about: those it serves, and those that are refused with a reason."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )

    causal, seq2seq = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return sorted({*BASES, *causal.values(), *seq2seq.values()})


def reason_against(name: str) -> str:
    """Why an architecture is not served."""
    if "ConditionalGeneration" in name:
        return "is an encoder-decoder model, or reads more than text, which this plugin does not serve."
    return "is not in the table of architectures that were compared with generate() under vLLM."


def is_tested(version: str) -> bool:
    return Version(version).base_version in SpecifierSet(VLLM)


def __getattr__(name: str) -> None:
    """Where vLLM looks for a class if its version, which nobody tried, is refused."""
    if name.startswith("Unbottled"):
        from vllm import __version__

        if not is_tested(__version__):
            raise ImportError(
                f"vLLM {__version__}: models with a head are served by vLLM {VLLM}. pip install 'vllm{VLLM}'"
            )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
