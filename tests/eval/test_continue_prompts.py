"""continue_prompts: alike one by one and in batches; what is cut, empty or refused."""

from __future__ import annotations

import pytest
import tiny_causal
import tiny_summaries
import torch
from byte_pairs import byte_pairs

from unbottle.eval import Decoding, continue_prompts

PROMPTS = ["the king met Anna", "Paris", "in Paris the king and the woman met, and the king", "a"]


def written(model, prompts: list[str], **options) -> list[str]:
    decoding = Decoding(**{"max_length": 6, "sampling": "greedy"} | options)
    return [found.text for found in continue_prompts(model, byte_pairs(), prompts, decoding)]


@pytest.mark.parametrize("method", tiny_causal.METHODS)
def test_a_batch_is_what_its_rows_are(method: str) -> None:
    """Prompts of different lengths: padding is neither read nor copied. And it is what generate() says."""
    model = tiny_causal.model(method, len(byte_pairs())).double()
    for sampling in ("greedy", "beams"):
        alone = written(model, PROMPTS, batch=1, sampling=sampling, beams=3)
        assert written(model, PROMPTS, batch=4, sampling=sampling, beams=3) == alone
        assert len(set(alone)) > 1
    ids = byte_pairs()(PROMPTS[0], return_tensors="pt")["input_ids"]
    made = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, ids.shape[1] :]
    assert written(model, PROMPTS[:1]) == [byte_pairs().decode(made, skip_special_tokens=True)]


def test_samples_are_of_the_seed_and_the_batch() -> None:
    model = tiny_causal.model("softmax+cpr:3,9+mi", len(byte_pairs()))
    state = torch.get_rng_state()
    first = written(model, PROMPTS, sampling="top-k", batch=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert written(model, PROMPTS, sampling="top-k", batch=2) == first
    assert written(model, PROMPTS, sampling="top-k", batch=2, seed=1) != first
    decoding = Decoding(max_length=6, batch=2)
    rest = continue_prompts(model, byte_pairs(), PROMPTS[2:], decoding, first_batch=1)
    assert [found.text for found in rest] == first[2:]


def test_the_end_of_a_long_prompt_is_read() -> None:
    model = tiny_causal.model("softmax+cpr:3,9+mi", len(byte_pairs()))  # reads and writes 256 tokens
    long = "the king met Anna in Paris " * 80
    count = len(byte_pairs()(long)["input_ids"])
    (found,) = continue_prompts(model, byte_pairs(), [long], Decoding(max_length=6, sampling="greedy"))
    assert found.dropped == count - 250 > 0
    ids = byte_pairs()(long, return_tensors="pt")["input_ids"][:, -250:]
    made = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, 250:]
    assert found.text == byte_pairs().decode(made, skip_special_tokens=True)


def test_an_empty_prompt_is_the_start_of_a_text() -> None:
    model = tiny_causal.model("softmax+c", len(byte_pairs()))
    start = torch.tensor([[byte_pairs().eos_token_id]])
    made = model.generate(start, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, 1:]
    assert written(model, [""]) == [byte_pairs().decode(made, skip_special_tokens=True)]
    silent = byte_pairs()
    silent.eos_token = None
    with pytest.raises(ValueError, match="an empty prompt"):
        list(continue_prompts(model, silent, [""], Decoding()))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="T5ForConditionalGeneration is an encoder-decoder"):
        written(tiny_summaries.model("t5", None), ["a"])
    with pytest.raises(ValueError, match=r"max_length 256: .* reads and writes at most 256 tokens"):
        written(tiny_causal.model("plain"), ["a"], max_length=256)
