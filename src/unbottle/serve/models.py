"""Which models and which versions of vLLM are served with a head. Imports nothing heavy: every vLLM process reads it."""

from __future__ import annotations

VLLM = ">=0.32,<0.33"  # the versions that `make test-serving` was run with

BACKEND = ("vllm.model_executor.models.transformers", "TransformersForCausalLM")

# The architecture as transformers names it: vLLM's own class.
# States of lower layers, which mi:LxW with L > 1 reads, come through the interface that EAGLE-3 uses. A class without it
# is replaced by vLLM's transformers backend, which has it, for these methods.
BASES: dict[str, tuple[str, str]] = {
    name: (f"vllm.model_executor.models.{module}", kind)
    for name, module, kind in (
        ("LlamaForCausalLM", "llama", "LlamaForCausalLM"),
        ("MistralForCausalLM", "mistral", "MistralForCausalLM"),
        ("Qwen2ForCausalLM", "qwen2", "Qwen2ForCausalLM"),
        ("Qwen3ForCausalLM", "qwen3", "Qwen3ForCausalLM"),
        ("GemmaForCausalLM", "gemma", "GemmaForCausalLM"),
        ("Gemma2ForCausalLM", "gemma2", "Gemma2ForCausalLM"),
        ("Gemma3ForCausalLM", "gemma3", "Gemma3ForCausalLM"),
        ("GPT2LMHeadModel", "gpt2", "GPT2LMHeadModel"),
        ("Phi3ForCausalLM", "phi3", "Phi3ForCausalLM"),
        ("GraniteForCausalLM", "granite", "GraniteForCausalLM"),
    )
} | {
    name: BACKEND
    for name in ("OlmoForCausalLM", "Olmo2ForCausalLM", "SmolLM3ForCausalLM", "GPTNeoXForCausalLM", "PhiForCausalLM")
}
