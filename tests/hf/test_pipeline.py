"""transformers' pipelines take a model with a head as they take any other."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
import torch
from models import shaken, tiny, words
from tokenizer import tokenizer
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from transformers.pipelines import get_supported_tasks

from unbottle.hf import attach, detach
from unbottle.hub import add_remote_code

CASES = [("gpt2", "softmax+cpr:5,20+mi"), ("llama", "ps+mi"), ("gemma2", "mos")]
PROMPTS = ["w5 w6 w7 w5", "w9", "w20 w21 w20 w21 w20 w21 w8"]
DECODING = {
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    "samples": {"do_sample": True, "temperature": 0.7},
}
NEW = {"max_new_tokens": 6, "min_new_tokens": 6}


def attached(name: str, method: str):
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


def generated(model, prompt: str, **options) -> list[list[int]]:
    """What generate() itself makes of a prompt."""
    torch.manual_seed(1)
    ids = tokenizer()(prompt, return_tensors="pt").input_ids
    return model.generate(ids, attention_mask=torch.ones_like(ids), **NEW, **options).tolist()


def through(pipe, prompt: str, **options) -> list[list[int]]:
    torch.manual_seed(1)
    return [answer["generated_token_ids"] for answer in pipe(prompt, return_tensors=True, **NEW, **options)]


@pytest.mark.parametrize("decoding", DECODING)
@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_model_is_taken_as_it_is(name, method, decoding):
    model = attached(name, method)
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer())
    got = {prompt: through(pipe, prompt, **DECODING[decoding]) for prompt in PROMPTS}
    assert got == {prompt: generated(model, prompt, **DECODING[decoding]) for prompt in PROMPTS}
    plain = detach(model)
    assert got != {prompt: generated(plain, prompt, **DECODING[decoding]) for prompt in PROMPTS}, (
        "the head says nothing"
    )


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_directory_is_enough(name, method, tmp_path):
    """Model, head and tokenizer from one place."""
    model = attached(name, method)
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    pipe = pipeline("text-generation", model=str(tmp_path))
    assert str(pipe.model.head.config.method) == method
    for prompt in PROMPTS:
        assert through(pipe, prompt, do_sample=False) == generated(model, prompt, do_sample=False)


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_batch_is_its_rows(name, method):
    """Prompts of every length: the shorter, the more padding before them."""
    model = attached(name, method)
    prompts = [tokenizer().decode(words(1, length, seed=length)[0]) for length in range(1, 25)]
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer(), batch_size=len(prompts))
    together = pipe(prompts, do_sample=False, return_tensors=True, **NEW)
    for prompt, [answer] in zip(prompts, together, strict=True):
        [alone] = generated(model, prompt, do_sample=False)
        assert answer["generated_token_ids"][-len(alone) :] == alone


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_nothing_is_said_about_an_unsupported_model(name, caplog):
    """The pipeline knows models by the names of their classes, and says so as an error if it does not."""
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        pipeline("text-generation", model=attached(name, "softmax+c"), tokenizer=tokenizer())
    finally:
        logger.removeHandler(caplog.handler)
    assert not [record.message for record in caplog.records if "not supported" in record.message]


TRUSTED = """
import sys
from transformers import pipeline
pipe = pipeline("text-generation", model=sys.argv[1], trust_remote_code=True)
answer = pipe(sys.argv[2], do_sample=False, max_new_tokens=6, min_new_tokens=6, return_tensors=True)
print(answer[0]["generated_token_ids"])
"""


@pytest.mark.full  # the same of a model: test_new_process.py; in one process: test_a_directory_is_enough
def test_a_script_that_never_heard_of_unbottle_needs_trust_remote_code(tmp_path):
    model = attached("gpt2", "softmax+cpr:5,20+mi")
    model.save_pretrained(tmp_path)
    add_remote_code(tmp_path)
    tokenizer().save_pretrained(tmp_path)

    settings = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TRUSTED, str(tmp_path), PROMPTS[0]],
        capture_output=True, text=True, env=os.environ | settings, stdin=subprocess.DEVNULL, timeout=100,
    )  # fmt: skip
    [want] = generated(model, PROMPTS[0], do_sample=False)
    assert done.stdout.splitlines()[-1:] == [str(want)], done.stderr[-3000:]


def test_encoder_decoders_have_tokenizer_and_generate(tmp_path):
    """transformers 5 has no pipeline for them; the directory holds what it takes to do without."""
    assert not {"summarization", "translation", "text2text-generation"} & {*get_supported_tasks()}
    model = attached("t5", "s+cepr:5+mi")
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    again, reader = AutoModelForSeq2SeqLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    batch = reader(PROMPTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    made = again.generate(**batch, do_sample=False, **NEW).tolist()
    assert made == [row for prompt in PROMPTS for row in generated(model, prompt, do_sample=False)]
