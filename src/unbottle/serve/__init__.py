"""Engines that keep many requests in pages: what a head remembers lies there too. See docs/serving.md."""

from __future__ import annotations


def register_with_vllm() -> None:
    """Called by vLLM in each of its processes: lets it read the config of a saved model, and find its class."""
    from vllm import ModelRegistry, __version__

    import unbottle.hub  # noqa: F401  AutoConfig knows the model type from now on
    from unbottle.hf.configuration import PREFIX
    from unbottle.serve.models import is_tested, registered

    module = "unbottle.serve.vllm" if is_tested(__version__) else "unbottle.serve.models"
    for name in registered():
        ModelRegistry.register_model(PREFIX + name, f"{module}:{PREFIX}{name}")
