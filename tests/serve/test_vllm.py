"""vLLM answers what generate() of the same checkpoint answers, however it cuts and mixes requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from served_models import (
    CONFIGS,
    METHODS,
    OTHERS,
    answers,
    assert_same,
    cached_answers,
    counted,
    engine,
    expected,
    largest_difference,
    needs_vllm,
    perturbed,
    prompts,
)

pytestmark = [needs_vllm, pytest.mark.filterwarnings("default")]

TOLERANCE = 1e-4  # of log-probabilities in float32
MAIN = METHODS[0]
CHUNKED = {"max_num_batched_tokens": 19, "max_num_seqs": 3, "enable_chunked_prefill": True}
# Fewer pages than the requests need together, and enough requests at once that they run out
SCARCE = CHUNKED | {"max_num_seqs": 8, "num_gpu_blocks_override": 9}


def saved(folder: Path, base: str, method: str) -> tuple[str, list]:
    model, wanted = cached_answers(base, method)
    model.save_pretrained(folder)
    return str(folder), wanted


@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(name, marks=pytest.mark.full) for name in OTHERS)])
class TestMethods:
    def test_batched_and_prefix_hit(self, tmp_path: Path, method: str) -> None:
        """prompt_logprobs make vLLM read all of a prompt, so the first answers are from no cache."""
        model, wanted = cached_answers("llama", method)
        model.save_pretrained(tmp_path)
        longer = [text + answer.tokens for text, answer in zip(prompts(), wanted, strict=True)]
        with engine(tmp_path, enable_prefix_caching=True) as llm:
            assert_same(answers(llm, prompts()), wanted)
            assert not counted(llm, "vllm:prefix_cache_hits")
            fresh = [text for text in prompts(seed=6) for _ in range(3)]  # from pages that are filled in the same step
            first = answers(llm, fresh, of_prompt=False)
            again = [expected(model, text) for text in prompts(seed=6)]
            for start in range(3):
                assert_same(first[start::3], again)
            assert_same(answers(llm, longer, of_prompt=False), [expected(model, text) for text in longer])
            assert counted(llm, "vllm:prefix_cache_hits") > 300

    def test_chunked_prefill_and_preemption(self, tmp_path: Path, method: str) -> None:
        folder, wanted = saved(tmp_path, "llama", method)
        with engine(folder, **SCARCE) as llm:
            assert_same(answers(llm, prompts()[:2]), wanted[:2])
            assert not counted(llm, "vllm:num_preemptions")
            assert_same(answers(llm, prompts(), of_prompt=False), wanted)
            assert counted(llm, "vllm:num_preemptions")


@pytest.mark.parametrize("base", [*CONFIGS])
def test_bases(tmp_path: Path, base: str) -> None:
    folder, wanted = saved(tmp_path, base, MAIN)
    with engine(folder, enable_prefix_caching=True, **CHUNKED) as llm:
        assert_same(answers(llm, prompts(), of_prompt=False), wanted)
        assert_same(answers(llm, prompts()), wanted)


@pytest.mark.parametrize("base", ["llama", "gpt2"])
def test_compiled(tmp_path: Path, base: str) -> None:
    folder, wanted = saved(tmp_path, base, MAIN)
    with engine(folder, enforce_eager=False) as llm:
        assert_same(answers(llm, prompts()), wanted)


@pytest.mark.parametrize(
    "method", [MAIN, *(pytest.param(name, marks=pytest.mark.full) for name in ("mos:2+cp+mi:1x3", "ps+ci", "copynet"))]
)
def test_tensor_parallel(tmp_path: Path, method: str) -> None:
    folder, wanted = saved(tmp_path, "qwen2", method)
    with engine(folder, tensor_parallel_size=2) as llm:
        assert_same(answers(llm, prompts()), wanted)


def test_bfloat16_differs_no_more_than_the_plain_model(tmp_path: Path) -> None:
    """A plain model in bfloat16 differs from generate() too: logits within the same distance, on the prompts."""
    distance = {}
    for name, method in (("plain", None), ("head", MAIN)):
        model = perturbed("llama", method, torch.bfloat16)
        model.save_pretrained(tmp_path / name)
        with engine(tmp_path / name, dtype="bfloat16") as llm:
            pairs = zip(answers(llm, prompts()), (expected(model, text) for text in prompts()), strict=True)
            gaps = [abs(a - b) for mine, theirs in pairs for a, b in zip(mine.prompt, theirs.prompt, strict=True)]
        distance[name] = sum(gaps) / len(gaps)
    assert 0 < distance["head"] < 2 * distance["plain"], distance


def test_copy_bias_of_a_request(tmp_path: Path) -> None:
    model, wanted = cached_answers("llama", MAIN)
    model.save_pretrained(tmp_path)
    with engine(tmp_path, logits_processors=["unbottle.serve.request_knobs:RequestKnobs"], **CHUNKED) as llm:
        biased = [expected(model, text, copy_bias=-3.0) for text in prompts()]
        assert any(a.tokens != b.tokens for a, b in zip(biased, wanted, strict=True))
        assert_same(answers(llm, prompts(), extra_args={"copy_bias": -3.0}), biased)
        assert_same(answers(llm, prompts()), wanted)
        with pytest.raises(Exception, match="copy_bias 'much': expected a finite number"):
            answers(llm, prompts(), extra_args={"copy_bias": "much"})


def without_the_keys(past: Any) -> Any:
    past.tensors["LD"].zero_()
    return past


def without_the_last_word(past: Any) -> Any:
    past.tensors["readable"] = past.tensors["readable"].clone()
    past.tensors["readable"][:, -1:] = False
    return past


MUTATIONS = {
    "a key lost": ("text", without_the_keys),
    "the layers lost": ("layers", torch.zeros_like),
    "the last word unread": ("text", without_the_last_word),
}


@pytest.mark.parametrize("name", [*MUTATIONS])
def test_the_comparison_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from unbottle.hf.paged_state import Pages

    folder, wanted = saved(tmp_path, "llama", MAIN)
    what, mutated = MUTATIONS[name]
    read = getattr(Pages, what)
    monkeypatch.setattr(Pages, what, lambda *args: mutated(read(*args)))
    with engine(folder) as llm:
        assert largest_difference(answers(llm, prompts()), wanted) > 100 * TOLERANCE


def test_word_by_word_is_refused(tmp_path: Path) -> None:
    perturbed("llama", "softmax+wbwr:5").save_pretrained(tmp_path)
    with pytest.raises(Exception, match="wbwr runs the model a second time"), engine(tmp_path):
        pass
