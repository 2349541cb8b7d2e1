"""Tiny models with a perturbed head, requests for them, and what generate() answers: for tests of serving engines."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf

import unbottle

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here; make test-serving installs it"
)

METHODS = ("softmax+cpr:5,20+mi", "softmax+cr:5,20", "softmax+c", "ps", "copynet")
OTHERS = ("softmax", "softmax+r:5,20", "mos:2+cp+mi:1x3", "pg+mi:2x2", "ps+ci", "softmax+i", "softmax+p+mi:3x1")
VOCABULARY, NEW = 199, 12
LENGTHS = (3, 120, 17, 40, 64, 5, 90, 31)
# vLLM's CPU kernels take heads of 32 and more
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "bos_token_id": 2,
    "eos_token_id": None,
    "pad_token_id": 0,
}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 4, "n_head": 2, "n_positions": 256}
GEMMA2 = {"head_dim": 32, "sliding_window": 24, "final_logit_softcapping": 4.0}
NO_GROUPS = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
CONFIGS = {
    "llama": lambda: tf.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "mistral": lambda: tf.MistralConfig(**SIZES, sliding_window=24),
    "qwen2": lambda: tf.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": lambda: tf.Qwen3Config(**SIZES, head_dim=32),
    "gemma": lambda: tf.GemmaConfig(**SIZES, head_dim=32),
    # eager: transformers leaves out the soft-cap of attention in its faster kernels, vLLM does not
    "gemma2": lambda: tf.Gemma2Config(**SIZES, **GEMMA2, attn_implementation="eager"),
    "gemma3": lambda: tf.Gemma3TextConfig(**SIZES, head_dim=32, sliding_window=24),
    "gpt2": lambda: tf.GPT2Config(**GPT2, bos_token_id=2, eos_token_id=None, pad_token_id=0),
    "phi": lambda: tf.PhiConfig(**SIZES),
    "phi3": lambda: tf.Phi3Config(**SIZES),
    "granite": lambda: tf.GraniteConfig(**SIZES, logits_scaling=0.25),
    "olmo": lambda: tf.OlmoConfig(**SIZES),
    "olmo2": lambda: tf.Olmo2Config(**SIZES),
    "smollm3": lambda: tf.SmolLM3Config(**SIZES),
    "gpt_neox": lambda: tf.GPTNeoXConfig(**NO_GROUPS),
}


def perturbed(base: str, method: str | None, dtype: torch.dtype = torch.float32) -> Any:
    """A random model whose distributions are far from even, and a head that is far from the plain softmax."""
    torch.manual_seed(0)
    model = tf.AutoModelForCausalLM.from_config(CONFIGS[base](), dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter *= 4
        if method is not None:
            unbottle.attach(model, method)
            for parameter in model.head.parameters():
                spread = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
                parameter += 0.3 * (spread if spread > 1e-3 else 0.3) * torch.randn_like(parameter)
    return model.eval()


def prompts(lengths: Sequence[int] = LENGTHS, seed: int = 5) -> list[list[int]]:
    """Few words, so that texts repeat them."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 60, (length,), generator=generator).tolist() for length in lengths]


@dataclass(frozen=True)
class Answer:
    """Tokens with their log-probabilities, and those of the prompt after its first token."""

    tokens: list[int]
    log_probs: list[float]
    prompt: list[float] = field(default_factory=list)


@torch.no_grad()
def expected(model: Any, prompt: list[int], **knobs: Any) -> Answer:
    """What generate() says, greedily."""
    ids = torch.tensor([prompt])
    options = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, **options, **knobs)
    tokens = made.sequences[0, len(prompt) :].tolist()
    log_probs = [float(step[0].float().log_softmax(-1)[token]) for step, token in zip(made.logits, tokens, strict=True)]
    of_prompt = model(ids, **knobs).logits[0, :-1].float().log_softmax(-1)
    return Answer(tokens, log_probs, of_prompt.gather(1, ids[0, 1:, None])[:, 0].tolist())


def answers(
    llm: Any, texts: list[list[int]], *, of_prompt: bool = True, lora: Any = None, **extra: Any
) -> list[Answer]:
    """What an engine says to the same requests, all at once."""
    from vllm import SamplingParams

    settings = SamplingParams(
        temperature=0, max_tokens=NEW, logprobs=0, prompt_logprobs=0 if of_prompt else None, detokenize=False, **extra
    )
    requests = [{"prompt_token_ids": text} for text in texts]
    return [
        _answer(text, output)
        for text, output in zip(texts, llm.generate(requests, settings, use_tqdm=False, lora_request=lora), strict=True)
    ]


def _answer(text: list[int], output: Any) -> Answer:
    made = output.outputs[0]
    log_probs = [step[token].logprob for step, token in zip(made.logprobs, made.token_ids, strict=True)]
    known = output.prompt_logprobs or []
    return Answer([*made.token_ids], log_probs, [step[text[i]].logprob for i, step in enumerate(known) if i])


def difference(mine: Answer, theirs: Answer) -> float:
    """The largest difference of a log-probability while the tokens agree; infinite where they do not."""
    if mine.tokens != theirs.tokens:
        return float("inf")
    pairs = [*zip(mine.log_probs, theirs.log_probs, strict=True)]
    if mine.prompt and theirs.prompt:
        pairs += zip(mine.prompt, theirs.prompt, strict=True)
    return max(abs(a - b) for a, b in pairs)


def largest_difference(some: list[Answer], others: list[Answer]) -> float:
    return max(difference(a, b) for a, b in zip(some, others, strict=True))


def assert_same(some: list[Answer], others: list[Answer], tolerance: float = 1e-4) -> None:
    """The same tokens, and log-probabilities that differ by rounding only."""
    found = [difference(a, b) for a, b in zip(some, others, strict=True)]
    wrong = [f"request {i}: {gap:.2g}" for i, gap in enumerate(found) if not gap < tolerance]
    if wrong:
        raise AssertionError(f"log-probabilities differ (inf: other tokens). {', '.join(wrong)} of {len(found)}")


@contextmanager
def engine(folder: Path | str, **settings: Any) -> Iterator[Any]:
    """A vLLM engine in this process; it loads the plugin by its entry point, as any other would."""
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda look: look()  # vLLM starts a process for each class, to keep this one off GPUs
    _once("register_triton_kernel_overrides")
    usual: dict[str, Any] = {
        "dtype": "float32",
        "max_model_len": 256,
        "block_size": 32,  # the smallest of vLLM on CPUs
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "skip_tokenizer_init": True,
        "disable_log_stats": False,
        "seed": 0,
    }
    llm = LLM(str(folder), **usual | settings)
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()


def _once(name: str) -> None:
    """What vLLM does at each start in a process, and can do only once: it stumbles over modules imported meanwhile."""
    from vllm.platforms import current_platform

    kind = type(current_platform)
    if not hasattr(getattr(kind, name), "cache_info"):
        setattr(kind, name, staticmethod(functools.cache(getattr(current_platform, name))))


def counted(llm: Any, name: str) -> float:
    """A counter of the engine since its start."""
    return sum(metric.value for metric in llm.get_metrics() if metric.name == name)


@functools.cache
def cached_answers(base: str, method: str) -> tuple[Any, list[Answer]]:
    """A model and what it answers to the usual requests."""
    model = perturbed(base, method)
    return model, [expected(model, text) for text in prompts()]
