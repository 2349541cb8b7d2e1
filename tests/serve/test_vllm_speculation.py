"""Speculation by n-grams: drafts are read with the text, rejected ones are forgotten.

The last file of this folder, because in a process that ran an engine with speculation the first step of the next engine
is wrong, with plain models too. The first request of each engine is there for that.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from served_models import METHODS, OTHERS, answers, assert_same, cached_answers, counted, engine, needs_vllm, prompts

pytestmark = [needs_vllm, pytest.mark.filterwarnings("default")]

NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(name, marks=pytest.mark.full) for name in OTHERS)])
def test_speculation(tmp_path: Path, method: str) -> None:
    model, wanted = cached_answers("llama", method)
    model.save_pretrained(tmp_path)
    with engine(tmp_path, speculative_config=NGRAM) as llm:
        answers(llm, prompts()[:1], of_prompt=False)
        assert_same(answers(llm, prompts(), of_prompt=False), wanted)
        assert counted(llm, "vllm:spec_decode_num_accepted_tokens")
