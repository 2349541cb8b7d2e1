"""Which models and versions of vLLM are served with a head. Imports nothing heavy: every vLLM process reads it."""

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


def check_version(found: str) -> None:
    """Refuse a vLLM that nobody tried."""
    if not is_tested(found):
        raise ImportError(f"vLLM {found}: models with a head are served by vLLM {VLLM}. pip install 'vllm{VLLM}'")


def __getattr__(name: str) -> None:
    """Where vLLM looks for a class if its version is refused."""
    if name.startswith("Unbottled"):
        from vllm import __version__

        check_version(__version__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
